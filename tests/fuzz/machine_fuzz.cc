// Machine texts (strategy/machine_text.h). Input: the text.
#include "strategy/machine_text.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void Check(const std::string& text) {
  const absl::StatusOr<planner::Machine> machine = planner::ParseMachine(text, "machine");
  if (!machine.ok()) return CheckError(machine.status(), "machine");
  CHECK_GE(machine->devices().size(), 1u);
  CHECK_LE(machine->devices().size(), planner::kDevicesMax);
  CHECK(!planner::HashOf(*machine).empty());
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
