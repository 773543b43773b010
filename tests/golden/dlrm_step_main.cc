// dlrm_step: one training step of dlrm on all samples of a file, with the values of tensors and
// rows that it began with and all that came out, in one safetensors file, for PyTorch to compare
// with (torch_test.py). Values are a function of the seed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "compute/init.h"
#include "models/formats/safetensors_writer.h"
#include "models/runtime/graph_runner.h"
#include "models/runtime/model_input.h"
#include "models/tables/sparse_model.h"

namespace soapstone::golden {
namespace {

using models::GraphRunner;
using models::RowBlock;
using models::SparseModel;

struct Flags {
  std::string model, data, out;
  uint64_t seed = 1;
};

struct DlrmStep {
  std::vector<SparseRows> rows, row_gradients;  // by table
  std::vector<std::vector<float>> gradients;    // by parameter
  std::vector<float> logits;
  float loss = 0;
};

// Of the keys that the samples need: normal, of length 1 on average.
std::vector<SparseRows> RandomRows(const SparseModel& model, const models::SparseBatch& batch,
                                   uint64_t seed) {
  std::vector<std::vector<uint64_t>> keys(model.tables().size());
  model.AddKeys(batch, &keys);
  std::vector<SparseRows> rows(keys.size());
  for (size_t t = 0; t < keys.size(); ++t) {
    std::sort(keys[t].begin(), keys[t].end());
    keys[t].erase(std::unique(keys[t].begin(), keys[t].end()), keys[t].end());
    const uint32_t dim = model.tables()[t].dim;
    const CounterRandom random(seed, RandomUse::kTest, t);
    for (size_t e = 0; e < keys[t].size() * dim; ++e) {
      rows[t].rows.push_back(static_cast<float>(random.Normal(e) / std::sqrt(dim)));
    }
    rows[t].keys = std::move(keys[t]);
  }
  return rows;
}

absl::Status RunStep(const SparseModel& model, const models::SparseBatch& batch,
                     GraphRunner* replica, DlrmStep* step) {
  std::vector<RowBlock> blocks;
  for (size_t t = 0; t < step->rows.size(); ++t) {
    blocks.emplace_back(step->rows[t], model.tables()[t].dim);
  }
  models::MiniBatch feed;
  model.DataOver(&blocks).train.Gather(batch.samples, &feed);
  SOAP_RETURN_IF_ERROR(replica->Begin(feed.samples, models::FieldsOf(feed)));
  const std::vector<models::Op>& ops = model.graph()->ops();
  for (size_t op = 0; op < ops.size(); ++op) replica->ForwardOp(op);
  step->logits = replica->logits();
  step->loss = static_cast<float>(replica->loss_sum());
  for (const ParamSpec& param : model.graph()->params()) {
    step->gradients.emplace_back(param.elements());
  }
  for (size_t op = ops.size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (ParamId p : ops[op].params) to.push_back(absl::MakeSpan(step->gradients[Index(p)]));
    replica->BackwardOp(op, to);
  }
  model.AddGradients(batch, replica->InputGradient(model.rows_input()), &blocks);
  for (RowBlock& block : blocks) step->row_gradients.push_back(block.TakeGradients());
  return absl::OkStatus();
}

absl::Status Write(const Flags& flags, const SparseModel& model, GraphRunner* replica,
                   const DlrmStep& step) {
  std::vector<models::NamedTensor> tensors;
  for (size_t t = 0; t < step.rows.size(); ++t) {
    const std::vector<uint64_t>& keys = step.rows[t].keys;
    if (step.row_gradients[t].keys != keys) return absl::InternalError("a row has no gradient");
    tensors.push_back({.name = absl::StrCat(model.tables()[t].name, ".keys"),
                       .shape = {static_cast<int64_t>(keys.size())},
                       .keys = keys});
  }
  tensors.push_back({"loss", {1}, {&step.loss, 1}});
  tensors.push_back({"logits", {static_cast<int64_t>(step.logits.size()) / 2, 2}, step.logits});
  const std::vector<ParamSpec>& params = model.graph()->params();
  for (size_t p = 0; p < params.size(); ++p) {
    tensors.push_back({params[p].name, params[p].shape, replica->param(ParamId(p))});
    tensors.push_back({"grad." + params[p].name, params[p].shape, step.gradients[p]});
  }
  for (size_t t = 0; t < step.rows.size(); ++t) {
    const std::string name = absl::StrCat(model.tables()[t].name, ".rows");
    const std::vector<int64_t> shape = {static_cast<int64_t>(step.rows[t].keys.size()),
                                        model.tables()[t].dim};
    tensors.push_back({name, shape, step.rows[t].rows});
    tensors.push_back({"grad." + name, shape, step.row_gradients[t].rows});
  }
  return models::WriteSafetensors(flags.out, tensors, {{"model", flags.model}});
}

absl::Status WriteStep(const Flags& flags) {
  SOAP_ASSIGN_OR_RETURN(
      const auto model,
      models::MakeSparseModel(
          flags.model, {.format = "criteo", .path = flags.data, .test_path = flags.data}, 0));
  SOAP_ASSIGN_OR_RETURN(
      const auto replica,
      GraphRunner::Create(*model->graph(), {.input_gradients = {model->rows_input()}}));
  for (uint32_t p = 0; p < model->graph()->params().size(); ++p) {
    compute::InitSlice(model->graph()->param(ParamId{p}), flags.seed, ParamId{p}, 0,
                       replica->param(ParamId{p}));
  }
  std::vector<uint64_t> samples(model->data().train.size());
  std::iota(samples.begin(), samples.end(), 0);
  const models::SparseBatch batch = {.samples = samples};
  DlrmStep step = {.rows = RandomRows(*model, batch, flags.seed)};
  SOAP_RETURN_IF_ERROR(RunStep(*model, batch, replica.get(), &step));
  return Write(flags, *model, replica.get(), step);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("One training step of dlrm, written as safetensors");
  app.add_option("--model", flags.model, "As in a job: dlrm:tiny,dense=3")->required();
  app.add_option("--data", flags.data, "Samples of format criteo")->required();
  app.add_option("--out", flags.out, "The file to write")->required();
  app.add_option("--seed", flags.seed, "Of tensors and rows");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const absl::Status status = WriteStep(flags);
  if (!status.ok()) std::cerr << "dlrm_step: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace soapstone::golden

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11's errors are caught, and others end the program.
int main(int argc, char** argv) { return soapstone::golden::Main(argc, argv); }
