// Lines between a launcher and the agents on hosts (apps/hosts/agent_message.h). Input: a line.
#include "apps/hosts/agent_message.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto message =
      soapstone::apps::FromJsonLine(std::string(reinterpret_cast<const char*>(data), size));
  if (!message.has_value()) return 0;
  const std::string line = soapstone::apps::ToJsonLine(*message);
  CHECK_EQ(line.find('\n'), std::string::npos);
  CHECK(soapstone::apps::FromJsonLine(line) == message);
  return 0;
}
