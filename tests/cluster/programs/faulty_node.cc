// A server or a worker whose store does not keep its word, for tests of the ledgers: it runs under
// the name soapstone-server or soapstone-worker, and SOAPSTONE_TEST_FAULT says how.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "apps/daemon/node_main.h"

int main(int argc, char** argv) {
  using soapstone::server::StoreFault;
  constexpr std::pair<std::string_view, StoreFault> kFaults[] = {
      {"none", StoreFault::kNone},
      {"drops", StoreFault::kDropsUpdates},
      {"doubles", StoreFault::kDoublesUpdates},
      {"reorders", StoreFault::kReordersUpdates},
      {"older", StoreFault::kAnswersOlder},
      {"older_content", StoreFault::kOlderContent},
      {"final_older", StoreFault::kFinalOlder},
      {"final_content", StoreFault::kFinalContent},
      {"saves_older", StoreFault::kSavesOlder},
      {"drops_parcels", StoreFault::kDropsParcels},
      {"loses_parcels", StoreFault::kLosesParcels}};
  const char* wanted = std::getenv("SOAPSTONE_TEST_FAULT");
  const bool server = absl::EndsWith(argv[0], "soapstone-server");
  for (const auto& [name, fault] : kFaults) {
    if (wanted == nullptr || name != wanted) continue;
    return soapstone::apps::NodeMain(
        server ? soapstone::wire::Role::kServer : soapstone::wire::Role::kWorker, argc, argv,
        fault);
  }
  std::fprintf(stderr, "SOAPSTONE_TEST_FAULT names no fault\n");
  return 2;
}
