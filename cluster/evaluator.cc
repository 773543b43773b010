#include "cluster/evaluator.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "base/piece_runs.h"
#include "base/status_macros.h"

namespace soapstone::experiment {
namespace {

// What the slices of all shards of pieces are together: a buffer a slice of Layout::Whole.
Buffers AssembleWhole(const wire::Layout& pieces, const std::vector<Buffers>& slices) {
  const std::vector<ParamSpec> params = WholeParams(pieces.params());
  std::vector<std::vector<float>> values;
  for (const ParamSpec& param : params) values.emplace_back(param.elements());
  for (uint32_t k = 0; k < pieces.shard_count(); ++k) {
    const std::vector<wire::Slice>& of_shard = pieces.slices(ShardId{k});
    for (size_t i = 0; i < of_shard.size(); ++i) {
      const uint32_t piece = Index(of_shard[i].param);
      const PieceRuns runs(pieces.params()[piece]);
      const absl::Span<const float> from = slices[k][i].floats();
      std::vector<float>& to = values[WholeOf(pieces.params(), piece)];
      for (uint64_t done = 0; done < from.size();) {
        const PieceRuns::Run run = runs.RunAt(of_shard[i].begin + done);
        const uint64_t count = std::min<uint64_t>(run.count, from.size() - done);
        std::copy_n(from.begin() + done, count, to.begin() + run.at);
        done += count;
      }
    }
  }
  Buffers whole;
  const wire::Layout layout = wire::Layout::Whole(params);
  for (const wire::Slice& slice : layout.slices(ShardId{0})) {
    whole.push_back(Buffer::CopyOf(
        absl::MakeConstSpan(values[Index(slice.param)]).subspan(slice.begin, slice.elements())));
  }
  return whole;
}

}  // namespace

HeldOut HeldOutOf(const worker::DeviceEvent& evaluation) {
  const auto samples = static_cast<double>(evaluation.samples);
  return {.loss = evaluation.loss_sum / samples,
          .accuracy = static_cast<double>(evaluation.correct) / samples};
}

absl::StatusOr<Evaluator> Evaluator::Create(models::Graph graph,
                                            std::shared_ptr<const models::TrainTest> data,
                                            std::shared_ptr<const wire::Layout> layout) {
  const bool split = layout->params() != graph.params();
  const auto whole =
      split ? std::make_shared<const wire::Layout>(wire::Layout::Whole(graph.params())) : layout;
  SOAP_ASSIGN_OR_RETURN(auto executor, worker::Executor::Create({.graph = std::move(graph),
                                                                 .data = std::move(data),
                                                                 .layout = whole,
                                                                 .now = [] { return Nanos{0}; }}));
  Evaluator evaluator(std::move(executor));
  if (split) evaluator.pieces_ = std::move(layout);
  return evaluator;
}

HeldOut Evaluator::Evaluate(std::vector<Buffers> slices) {
  if (pieces_ != nullptr) slices = {AssembleWhole(*pieces_, slices)};
  std::vector<worker::DeviceEvent> none;
  executor_->Run({.what = worker::LoadCommand{.frames = std::move(slices)}}, &none);
  return HeldOutOf(executor_->Evaluate());
}

}  // namespace soapstone::experiment
