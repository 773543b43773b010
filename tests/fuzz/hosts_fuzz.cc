// Hosts files (apps/hosts/hosts_file.h). Input: the text.
#include "apps/hosts/hosts_file.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void Check(const std::string& text) {
  const auto hosts = apps::ParseHosts(text, "hosts");
  if (!hosts.ok()) return CheckError(hosts.status(), "hosts:");
  CHECK(!hosts->empty());
  for (const uint32_t workers : {0u, 1u, 5u}) {
    const auto places = apps::PlaceOnHosts(*hosts, 2, workers, "hosts");
    if (!places.ok()) {
      CheckError(places.status(), "hosts:");
      continue;
    }
    CHECK_EQ(places->servers.size(), 2u);
    CHECK_EQ(places->workers.size(), workers);
    std::vector<uint32_t> taken(hosts->size());
    for (const size_t i : places->servers) {
      CHECK_NE((*hosts)[i].role, "worker");
      ++taken[i];
    }
    for (const size_t i : places->workers) {
      CHECK_NE((*hosts)[i].role, "server");
      ++taken[i];
    }
    for (size_t i = 0; i < taken.size(); ++i) CHECK_LE(taken[i], (*hosts)[i].slots);
  }
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
