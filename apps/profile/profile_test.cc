// What `soapstone models` and `soapstone profile` are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/cli/model_listing.h"
#include "apps/node/random_batch.h"
#include "apps/profile/cost_table.h"
#include "apps/profile/profile_report.h"
#include "apps/profile/replica_profile.h"
#include "apps/profile/step_profile.h"
#include "apps/report/process_memory.h"
#include "apps/report/step_memory.h"
#include "base/memory/memory_limit.h"
#include "compute/op_text.h"
#include "models/graph/graph_text.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

models::Graph ModelOf(const char* name) { return *models::BuildModel(name, models::ModelInput{}); }

// Times that are made up: operator k takes 1000 (k + 1) ns forward, twice that backward.
StepProfile MadeUp(const models::Graph& graph, int64_t samples) {
  StepProfile profile = {.samples = samples, .steps = 5};
  Nanos now = 0;
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    const auto took = static_cast<Nanos>(1000 * (k + 1));
    profile.forward.push_back(took);
    profile.backward.push_back(2 * took);
    profile.typical.forward.push_back({now, now + took});
    now += took;
  }
  profile.typical.backward.resize(graph.ops().size());
  for (size_t k = graph.ops().size(); k-- > 0;) {
    profile.typical.backward[k] = {now, now + profile.backward[k]};
    now += profile.backward[k];
  }
  profile.step = now;
  return profile;
}

ProfileReport MadeUpReport(const char* model) {
  ProfileReport report = {.model = model, .roofline = {.gflops = 100, .gbps = 10}};
  report.graph = ModelOf(model);
  report.kept.steps = MadeUp(report.graph, 4);
  report.kept.planned = {.parameter_bytes = 100, .gradient_bytes = 100, .activation_bytes = 600};
  report.kept.measured = {.program_bytes = 200, .peak_bytes = 1100};
  return report;
}

std::string TemporaryPath(const char* name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + name;
}

TEST(RandomBatch, TokensAndLabelsAreOnesThatTheModelHas) {
  const models::Graph graph = ModelOf("bert_base:tiny");
  const models::MiniBatch feed = RandomBatch(graph, 8, 1);
  ASSERT_EQ(feed.fields.size(), 3u);
  const int32_t bounds[] = {64, 2, 2};  // words, segments, classes
  for (size_t i = 0; i < 3; ++i) {
    int32_t most = 0;
    for (const int32_t value : feed.Ints(i)) {
      ASSERT_GE(value, 0);
      ASSERT_LT(value, bounds[i]);
      most = std::max(most, value);
    }
    EXPECT_GT(most, 0);
  }
  EXPECT_EQ(RandomBatch(graph, 8, 1).fields, feed.fields);
  EXPECT_NE(RandomBatch(graph, 8, 2).fields, feed.fields);
}

TEST(StepMemory, SumsWhatAStepNeeds) {
  const models::Graph graph = ModelOf("softmax");
  const StepMemory memory = StepMemoryOf(graph, 2, {.bytes = 1000});
  EXPECT_EQ(memory.parameter_bytes, 4u * 7850);
  EXPECT_EQ(memory.batch_bytes, 2u * 4 * (784 + 1));
  EXPECT_EQ(memory.total(), 2u * 4 * 7850 + 2 * 4 * 785 + 1000);
}

TEST(StepMemory, TheLivePeakIsThePlansBound) {
  const models::Graph graph = ModelOf("resnet50:tiny");
  const models::StepPlan plan = *models::GraphRunner::PlanStep(graph, {}, 4);
  const LivePeak peak = LivePeakOf(graph, plan.step, 5);
  EXPECT_LE(peak.bytes, plan.memory.live_bytes_max);  // which rounds each value up to 64 bytes
  EXPECT_GT(peak.bytes, plan.memory.live_bytes_max * 99 / 100);
  ASSERT_EQ(peak.largest.size(), 5u);
  EXPECT_GE(peak.largest[0].bytes, peak.largest[4].bytes);
}

TEST(StepMemory, SaysHowMuchIsMissing) {
  EXPECT_TRUE(CheckFits("m", 100, 100).ok());
  const absl::Status status = CheckFits("mlp with batch 9", 3'000'000'000, 1'000'000'000);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mlp with batch 9 needs 3000.0 MB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2000.0 MB too little"));
}

TEST(ProcessMemory, SeesWhatIsTaken) {
  ASSERT_GT(AvailableMemory(), 0u);
  const uint64_t before = ReadResidentMemory().now_bytes;
  ASSERT_GT(before, 0u);
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<char> taken(kBytes, 1);
  asm volatile("" : : "r"(taken.data()) : "memory");
  const ResidentMemory after = ReadResidentMemory();
  EXPECT_GE(after.now_bytes, before + kBytes / 2);
  EXPECT_GE(after.peak_bytes, after.now_bytes);
  EXPECT_LT(after.code_bytes, after.now_bytes);
}

TEST(StepProfiler, TimesEveryOperatorInOrder) {
  const models::Graph graph = ModelOf("rnnlm:tiny");
  auto profiler = *StepProfiler::Create(graph, {});
  const StepTimes times = *profiler->Run(3);
  ASSERT_EQ(times.forward.size(), graph.ops().size());
  Nanos last = 0;
  for (const TimeSlice& slice : times.forward) {
    EXPECT_GE(slice.begin, last);
    EXPECT_GE(slice.end, slice.begin);
    last = slice.end;
  }
  EXPECT_GE(times.backward.back().begin, last);
  EXPECT_EQ(times.backward.front().end, times.took);
  // A model that knows nothing: log 64 a sample.
  EXPECT_NEAR(times.loss_sum / 3, std::log(64.0), 0.5);
  const StepProfile profile = *profiler->Measure(2, 0, nullptr);
  EXPECT_EQ(profile.steps, 3u);
  EXPECT_EQ(profile.samples, 2);
  EXPECT_EQ(profile.forward.size(), graph.ops().size());
}

TEST(ProfileReport, JsonHasEveryOperatorAndSumsThatAgree) {
  const ProfileReport report = MadeUpReport("lenet5:tiny");
  const Json json = Json::parse(ProfileJson(report));
  Nanos sum = 0;
  int64_t flops = 0;
  for (const Json& op : json["operators"]) {
    sum += op["forward_ns"].get<Nanos>() + op["backward_ns"].get<Nanos>();
    flops += op["forward_flops"].get<int64_t>() + op["backward_flops"].get<int64_t>();
  }
  EXPECT_EQ(json["operators"].size(), report.graph.ops().size());
  EXPECT_EQ(json["operators_ns"].get<Nanos>(), sum);
  EXPECT_EQ(flops, 4 * report.graph.flops_per_sample());
  EXPECT_EQ(json["memory_bytes"]["predicted"], 1000);
  EXPECT_DOUBLE_EQ(json["measured_to_predicted"].get<double>(), 1.1);
}

TEST(ProfileReport, TheTableFoldsWhatIsBelowTheTop) {
  const std::string table = ProfileTable(MadeUpReport("lenet5:tiny"), 3);
  EXPECT_THAT(table, HasSubstr("6 more"));
  EXPECT_THAT(table, HasSubstr("all operators"));
  EXPECT_THAT(table, HasSubstr("conv2d x2"));
  EXPECT_EQ(table.find("\nconv1 "), table.npos);  // the fastest
}

TEST(ProfileReport, TheTraceHasASliceForEachHalf) {
  const ProfileReport report = MadeUpReport("lenet5:tiny");
  const Json trace = Json::parse(ProfileTrace(report));
  double end = 0;
  size_t slices = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices;
    EXPECT_GE(event["ts"].get<double>(), end - 1e-6) << event;
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(slices, 2 * report.graph.ops().size());
  EXPECT_NEAR(end, static_cast<double>(report.kept.steps.step) / 1e3, 1e-6);
}

TEST(ReplicaProfile, MeasuresOneAndAll) {
  const ReplicaProfile profile =
      *MeasureReplicas({.model = "lenet5:tiny", .batch = 4, .seconds = 0, .replicas = 2});
  EXPECT_GT(profile.alone, 0);
  EXPECT_GT(profile.together, 0);
  EXPECT_EQ(profile.planned.parameter_bytes, 4u * 31'294);
  EXPECT_THAT(ReplicaText(profile), HasSubstr("2 replicas"));
  EXPECT_EQ(Json::parse(ReplicaJson(profile))["replicas"], 2);
}

TEST(ReplicaProfile, SaysHowTheWorkspaceIsDivided) {
  const ReplicaProfile profile = {
      .model = "m",
      .device = "cuda",
      .replicas = 2,
      .batch = 8,
      .alone = 1000,
      .together = 1600,
      .workspace_bytes = 40'000'000,
      .division = compute::WorkspaceDivision{
          .bytes = {10'000'000, 30'000'000}, .equal_seconds = 0.004, .divided_seconds = 0.003}};
  const std::string text = ReplicaText(profile);
  EXPECT_THAT(text, HasSubstr("1000.0 samples/s, a step takes 8.000 ms"));
  EXPECT_THAT(text, HasSubstr("1.60 times as many, a step of each takes 10.000 ms"));
  EXPECT_THAT(text, HasSubstr("4.000 ms in equal parts, 3.000 ms divided as 10.0 MB, 30.0 MB"));
  const Json json = Json::parse(ReplicaJson(profile));
  EXPECT_EQ(json["workspace"]["parts"], (std::vector<size_t>{10'000'000, 30'000'000}));
}

TEST(ReplicaProfile, DevicesAreNamed) {
  const auto refused = [](const std::string& device, uint64_t workspace_mb) {
    return std::string(
        MeasureReplicas(
            {.model = "mlp", .device = device, .replicas = 2, .workspace_mb = workspace_mb})
            .status()
            .message());
  };
  EXPECT_THAT(refused("gpu", 0), HasSubstr("none of cpu, cuda, cuda:N and auto"));
  EXPECT_THAT(refused("cuda:x", 0), HasSubstr("none of cpu, cuda, cuda:N and auto"));
  EXPECT_THAT(refused("cpu", 64), HasSubstr("--device=cuda"));
}

TEST(CostTable, IsReadBackAsWritten) {
  const models::Graph graph = ModelOf("transformer_lm:tiny");
  const CostOrigin origin = {
      .model = "transformer_lm:tiny", .precision = "bf16", .roofline = {.gflops = 100, .gbps = 10}};
  const wire::CostTable table = MakeCostTable(graph, origin, {MadeUp(graph, 4), MadeUp(graph, 1)});
  const std::string path = TemporaryPath("costs.textproto");
  ASSERT_TRUE(WriteCostTable(path, table).ok());
  const absl::StatusOr<wire::CostTable> read = ReadCostTable(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), table.SerializeAsString());
  EXPECT_EQ(read->model_sha256(), models::HashOf(graph));
  EXPECT_EQ(read->flops_per_second(), 100'000'000'000u);
  EXPECT_EQ(read->precision(), "bf16");
}

TEST(CostTable, WithoutAPrecisionIsOfFloat32) {
  const std::string path = TemporaryPath("before.textproto");
  std::ofstream(path) << "version: 1\n";
  EXPECT_EQ(ReadCostTable(path)->precision(), "float32");
}

TEST(CostTable, OperatorsAlikeAreOneEntryForEachShape) {
  const models::Graph graph = ModelOf("transformer_lm:tiny");
  const wire::CostTable table =
      MakeCostTable(graph, {.model = "m"}, {MadeUp(graph, 4), MadeUp(graph, 1)});
  size_t names = 0;
  bool found = false;
  for (const wire::OperatorCost& cost : table.operators()) {
    names += cost.names_size();
    if (cost.op() != "multi_head_attention(heads=4, causal)") continue;
    found = true;
    EXPECT_EQ(cost.names_size(), 2);  // of both layers
    EXPECT_EQ(cost.inputs_size(), 3);
    EXPECT_EQ(cost.backward_ns(), 2 * cost.forward_ns());
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(names, 2 * graph.ops().size());
}

TEST(CostTable, OtherVersionsAndOtherTextAreRefused) {
  const std::string path = TemporaryPath("wrong.textproto");
  std::ofstream(path) << "version: 2\n";
  EXPECT_THAT(std::string(ReadCostTable(path).status().message()), HasSubstr("version 2"));
  std::ofstream(path) << "version: 1\nspeed: 3\n";
  EXPECT_THAT(std::string(ReadCostTable(path).status().message()), HasSubstr(":2:"));
  EXPECT_FALSE(ReadCostTable(TemporaryPath("none.textproto")).ok());
}

TEST(ModelListing, HasTheWholeZooInBothSizes) {
  const std::vector<ZooLine> lines = *ListZoo({.batch = 2}, nullptr);
  const std::string table = ZooTable(lines, 2);
  for (const std::string& name : models::ModelNames()) {
    EXPECT_THAT(table, HasSubstr("\n" + name + " "));
  }
  EXPECT_THAT(table, HasSubstr("25,557,032"));  // resnet50's
  EXPECT_THAT(table, HasSubstr("skip_gram:"));
  const Json json = Json::parse(ZooJson(lines, 2));
  EXPECT_EQ(json["models"].size(), models::ModelNames().size());
  EXPECT_EQ(json["sparse_models"].size(), 4u);
  EXPECT_EQ(json["sparse_models"].back()["parameters"], 476'242);  // dlrm's, beside its tables
  EXPECT_THAT(table, HasSubstr("tensors  476,242 parameters"));
}

TEST(ModelListing, AModelsOperatorsWithTheirSplits) {
  const ModelDetail detail = *DetailOf("lenet5:tiny", {.batch = 8});
  EXPECT_EQ(SplitsOf(detail.graph, detail.graph.ops()[2]), "n:S o:P h:A w:A i:R");
  EXPECT_THAT(DetailTable(detail), HasSubstr("fc1"));
  const Json json = Json::parse(DetailJson(detail));
  uint64_t parameters = 0;
  for (const Json& op : json["operators"]) parameters += op["parameters"].get<uint64_t>();
  EXPECT_EQ(parameters, json["parameters"].get<uint64_t>());
  EXPECT_LE(json["recompute_memory_bytes"]["total"], json["memory_bytes"]["total"]);
}

TEST(ModelListing, AModelOverTablesHasOperatorsWhereItHasTensors) {
  const ModelDetail detail = *DetailOf("dlrm:tiny", {.batch = 8});
  EXPECT_THAT(DetailTable(detail), HasSubstr("pairwise_dot"));
  EXPECT_THAT(DetailTable(detail), HasSubstr("input rows [26,8] float32"));
}

TEST(ModelListing, UnknownModelsAreNamed) {
  EXPECT_THAT(std::string(DetailOf("lenet6", {.batch = 8}).status().message()),
              HasSubstr("lenet6"));
  EXPECT_THAT(std::string(DetailOf("logistc", {.batch = 8}).status().message()),
              HasSubstr("did you mean logistic?"));
  EXPECT_THAT(std::string(DetailOf("logistic", {.batch = 8}).status().message()),
              HasSubstr("logistic is a model over tables alone"));
}

}  // namespace
}  // namespace soapstone::apps
