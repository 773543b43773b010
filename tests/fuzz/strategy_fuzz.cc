// Strategy texts (strategy/strategy_text.h). Input: the text, in which MODEL and MACHINE
// stand for the hashes of those that it is for.
#include "absl/strings/str_replace.h"
#include "strategy/strategy_text.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/planned_model.h"
#include "wire/config/text_config.h"

namespace soapstone::fuzz {
namespace {

void Check(absl::string_view input) {
  static const auto* machine_sha256 = new std::string(planner::HashOf(PlannedMachine()));
  const std::string text = absl::StrReplaceAll(
      input, {{"MODEL", PlannedGraph().model_sha256}, {"MACHINE", *machine_sha256}});
  const absl::StatusOr<wire::Strategy> message = planner::ParseStrategy(text, "strategy");
  if (!message.ok()) return CheckError(message.status(), "strategy:");
  const absl::StatusOr<planner::Strategy> strategy =
      planner::StrategyFrom(*message, "strategy", PlannedGraph(), PlannedMachine());
  if (!strategy.ok()) return CheckError(strategy.status(), "strategy:");
  // What was taken is written, and read as the same.
  const auto again =
      planner::StrategyFrom(planner::MessageOf(PlannedGraph(), PlannedMachine(), "", *strategy),
                            "again", PlannedGraph(), PlannedMachine());
  CHECK(again.ok()) << again.status();
  CHECK(*again == *strategy);
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
