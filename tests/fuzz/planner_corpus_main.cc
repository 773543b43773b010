// As corpus_main.cc, the strategies: make_planner_corpus tests/fuzz/corpus
#include <cstdio>
#include <string>

#include "absl/strings/str_replace.h"
#include "strategy/strategy_text.h"
#include "tests/fuzz/corpus_folder.h"
#include "tests/fuzz/planned_model.h"
#include "wire/config/text_config.h"

namespace soapstone::fuzz {
namespace {

void Strategies(const Corpus& corpus) {
  const std::string hash = planner::HashOf(PlannedMachine());
  const auto strategy = [&](const char* name, const planner::Strategy& of) {
    corpus.Put("strategy", name,
               absl::StrReplaceAll(
                   wire::TextOf(planner::MessageOf(PlannedGraph(), PlannedMachine(), "costs", of)),
                   {{PlannedGraph().model_sha256, "MODEL"}, {hash, "MACHINE"}}));
  };
  planner::Strategy all = planner::DataParallel(PlannedGraph(), 4);
  all.synchronization = planner::Synchronization::kRing;
  strategy("data-parallel", all);
  all.synchronization = planner::Synchronization::kServers;
  strategy("servers", all);
  planner::OpConfig& config = all.ops[1];
  config.degrees = {2, 2, 1};
  config.cuts = {{3}, {}, {}};
  config.devices = {3, 1, 0, 2};
  strategy("cuts", all);
  strategy("one-device", planner::SingleDevice(PlannedGraph(), 3));
}

}  // namespace
}  // namespace soapstone::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_planner_corpus FOLDER\n");
    return 64;
  }
  soapstone::fuzz::Strategies(soapstone::fuzz::Corpus(argv[1]));
  return 0;
}
