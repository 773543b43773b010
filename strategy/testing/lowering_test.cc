// What workers compute of a split model is what the whole computes: random operators, random
// models, random splits; placements and pipelines to the bit. SOAPSTONE_PAIRS and SOAPSTONE_MODELS
// set how many.
#include "strategy/lowering.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "compute/cpu/backend.h"
#include "compute/reference/backend.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "strategy/testing/local_team.h"
#include "strategy/testing/random_strategies.h"

namespace soapstone::planner {
namespace {

using testing::HasSubstr;

int Count(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  int count = otherwise;
  if (text != nullptr) CHECK(absl::SimpleAtoi(text, &count)) << name;
  return count;
}

double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  return std::sqrt(sum);
}

// ‖a − b‖/‖b‖
double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  const double norm = Norm(b);
  return norm == 0 ? std::sqrt(sum) : std::sqrt(sum) / norm;
}

// The largest allowed of a tensor's error: what two ways to compute the whole differ by, ten times.
double Allowed(double noise) { return std::max(1e-5, 10 * noise); }

// Whether two results differ by no more than rounding does; else where.
std::string Compare(const models::Graph& graph, const StepResult& split, const StepResult& whole,
                    const StepResult& reference) {
  const auto loss_error = [&](const StepResult& result) {
    return std::abs(result.loss - whole.loss) / std::abs(whole.loss);
  };
  if (!(loss_error(split) <= Allowed(loss_error(reference)))) {
    return absl::StrCat("loss ", split.loss, " for ", whole.loss);
  }
  const Tensors a = split.Gradients();
  const Tensors b = whole.Gradients();
  const Tensors c = reference.Gradients();
  for (size_t p = 0; p < b.size(); ++p) {
    const double error = RelativeError(a[p], b[p]);
    const double noise = RelativeError(c[p], b[p]);
    if (!(error <= Allowed(noise))) {
      return absl::StrCat("gradient of ", graph.params()[p].name, ": error ", error,
                          " where the whole's is ", noise);
    }
  }
  return "";
}

bool SameBits(const StepResult& a, const StepResult& b) {
  for (size_t leaf = 0; leaf < b.leaves.size(); ++leaf) {
    for (size_t p = 0; p < b.leaves[leaf].size(); ++p) {
      const std::vector<float>& x = a.leaves[leaf][p];
      const std::vector<float>& y = b.leaves[leaf][p];
      if (x.size() != y.size()) return false;
      if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

std::string TextOf(const OpGraph& graph, const Strategy& strategy) {
  std::string text;
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    absl::StrAppend(&text, "\n  ", graph.ops[k].name, ":");
    for (size_t d = 0; d < strategy.ops[k].degrees.size(); ++d) {
      if (strategy.ops[k].degrees[d] == 1) continue;
      absl::StrAppend(&text, " ", graph.ops[k].rule.dims[d].name, "=", strategy.ops[k].degrees[d]);
    }
    absl::StrAppend(&text, " on");
    for (const uint32_t seat : strategy.ops[k].devices) absl::StrAppend(&text, " ", seat);
  }
  return text;
}

// A random operator, split at random, with all that is needed to run it.
struct Pair {
  OneOperator one;
  OpGraph plan;
  Strategy strategy;
  Tensors params;
  Batch batch;
};

constexpr uint32_t kPairSeats = 4;

Pair RandomPair(int i) {
  Draws draws(static_cast<uint64_t>(i));
  Pair pair = {.one = RandomOperator(&draws)};
  const int64_t samples = draws.Between(2, 6);
  pair.plan = *MakeOpGraph(pair.one.graph, {.batch = samples});
  const SplitOptions options = {.seats = kPairSeats};
  pair.strategy = RandomStrategy(pair.plan, {.seats = kPairSeats, .splits = draws.Coin()}, &draws);
  for (int tries = 0; tries < 20 && pair.strategy.ops[pair.one.op].devices.size() < 2; ++tries) {
    pair.strategy.ops[pair.one.op] = RandomConfig(pair.plan.ops[pair.one.op], options, &draws);
  }
  pair.params = InitialParams(pair.one.graph, static_cast<uint64_t>(i));
  pair.batch = RandomBatch(pair.one.graph, samples, static_cast<uint64_t>(i));
  return pair;
}

// What is wrong with the split; empty: nothing.
std::string WhatDiffers(const Pair& pair, const std::function<void(models::Section*)>& spoil) {
  static const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  static const std::shared_ptr<compute::Backend> reference = compute::MakeReferenceBackend();
  const Order order = CanonicalOrder(pair.plan, pair.strategy, kPairSeats);
  auto team = LocalTeam::Create(pair.plan, pair.strategy, order,
                                {.backend = cpu, .seed = 3, .spoil = spoil});
  if (!team.ok()) return team.status().ToString();
  (*team)->SetParams(pair.params);
  const auto split = (*team)->Step(pair.batch, 4);
  if (!split.ok()) return split.status().ToString();
  const models::Graph& graph = pair.one.graph;
  const auto whole =
      WholeStep(graph, pair.plan, pair.params, pair.batch, 4, {.backend = cpu, .seed = 3});
  const auto noise =
      WholeStep(graph, pair.plan, pair.params, pair.batch, 4, {.backend = reference, .seed = 3});
  return Compare(graph, *split, *whole, *noise);
}

TEST(LoweringTest, RandomOperatorsSplitAtRandomGiveTheWhole) {
  const int pairs = Count("SOAPSTONE_PAIRS", 200);
  int uneven = 0;
  std::set<std::string> kinds;
  for (int i = 0; i < pairs; ++i) {
    const Pair pair = RandomPair(i);
    kinds.insert(std::string(compute::NameOf(pair.plan.ops[pair.one.op].what)));
    if (!pair.strategy.ops[pair.one.op].cuts.empty()) ++uneven;
    ASSERT_EQ(WhatDiffers(pair, nullptr), "") << "pair " << i << TextOf(pair.plan, pair.strategy);
  }
  RecordProperty("uneven", uneven);
  EXPECT_GE(uneven, pairs / 3);
  EXPECT_GE(kinds.size(), pairs >= 200 ? 20u : 1u);
}

// ---- What could be wrong is seen

using Spoil = void (*)(models::Section*);

template <typename Change>
void EachInput(models::Section* section, const Change& change) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartInput& input : section->parts[p].inputs) change(&input);
  }
}
template <typename Change>
void EachTerm(models::Section* section, const Change& change) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartOutput& output : section->parts[p].outputs) {
      for (models::Assembly& term : output.terms) change(&term);
    }
  }
}

// A row of what is read is missing.
void HaloTooShort(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) {
      if (box.move.size.size() < 3 || box.move.size[2] < 2) continue;
      --box.move.size[2];
      input->from.covered = false;
    }
  });
}
void OffByOneRow(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) {
      if (box.move.size.back() < 2) continue;
      --box.move.size.back();
      ++box.move.to.back();
    }
  });
}
void PartialSumsReplaced(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) box.adds = false;
  });
}
void GradientsReplaced(models::Section* section) {
  EachTerm(section, [](models::Assembly* term) {
    for (models::Box& box : term->boxes) box.adds = false;
  });
}
void GradientsTwice(models::Section* section) {
  EachTerm(section, [](models::Assembly* term) {
    if (term->boxes.empty()) return;
    term->boxes.push_back(term->boxes.back());
    term->boxes.back().adds = true;
  });
}
void SumsNotScaled(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) box.scale = 1;
  });
}
void NoReluOfSums(models::Section* section) {
  EachInput(section, [](models::PartInput* input) { input->relu = false; });
}
void ZerosAroundMaxima(models::Section* section) {
  EachInput(section, [](models::PartInput* input) { input->fill = 0; });
}
void IdsNotShifted(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    if (input->rows.has_value()) input->rows = models::Range{0, input->rows->size()};
  });
}
void SamplesNotCounted(models::Section* section) {
  for (models::SectionPart& part : section->parts) part.first_sample = 0;
}
void FieldsFromTheFirstSample(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    if (input->from.kind == models::Assembly::Kind::kField) input->from.move.from[0] = 0;
  });
}
void OneReaderForgotten(models::Section* section) {
  for (models::OutgoingBlock& block : section->outgoing) {
    if (block.backward && block.boxes.size() > 1) block.boxes.pop_back();
  }
}
void TermForgotten(models::Section* section) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartOutput& output : section->parts[p].outputs) {
      for (models::Assembly& term : output.terms) {
        if (term.boxes.size() > 1) term.boxes.pop_back();
      }
    }
  }
}

TEST(LoweringTest, EveryFaultIsSeen) {
  const std::pair<const char*, Spoil> faults[] = {
      {"halo too short", HaloTooShort},
      {"off by one row", OffByOneRow},
      {"partial sums replaced", PartialSumsReplaced},
      {"gradients replaced", GradientsReplaced},
      {"gradients twice", GradientsTwice},
      {"sums not scaled", SumsNotScaled},
      {"no relu of sums", NoReluOfSums},
      {"zeros around maxima", ZerosAroundMaxima},
      {"ids not shifted", IdsNotShifted},
      {"samples not counted", SamplesNotCounted},
      {"fields from the first sample", FieldsFromTheFirstSample},
      {"one reader forgotten", OneReaderForgotten},
      {"a region forgotten", TermForgotten}};
  for (const auto& [name, spoil] : faults) {
    int i = 0;
    while (i < 200 && WhatDiffers(RandomPair(i), spoil).empty()) ++i;
    EXPECT_LT(i, 200) << name << " lives";
    RecordProperty(absl::StrCat("pairs_to_death_", name), i + 1);
  }
}

TEST(LoweringTest, RandomStrategiesOfModelsGiveTheWhole) {
  const int models = Count("SOAPSTONE_MODELS", 20);
  const std::vector<std::string> names = models::ModelNames();
  const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  const std::shared_ptr<compute::Backend> reference = compute::MakeReferenceBackend();
  int kinks = 0;
  for (int i = 0; i < models; ++i) {
    Draws draws(static_cast<uint64_t>(i), 1);
    const std::string name = names[static_cast<size_t>(i) % names.size()] + ":tiny";
    const models::Graph graph = *models::BuildModel(name, models::ModelInput{});
    const int64_t micro_batches = int64_t{1} << draws.Between(0, 3);
    const int64_t batch_size = micro_batches * draws.Between(1, 2) + draws.Between(0, 1);
    const OpGraph plan = *MakeOpGraph(graph, {.batch = batch_size, .micro_batches = micro_batches});
    const SplitOptions options = {.seats = static_cast<uint32_t>(draws.Between(2, 8))};
    const Strategy strategy = RandomStrategy(plan, options, &draws);
    const Order order =
        CanonicalOrder(plan, strategy, options.seats, static_cast<uint32_t>(draws.Between(0, 3)));
    auto team = LocalTeam::Create(plan, strategy, order,
                                  {.backend = cpu, .seed = 3, .turns = SeatTurns::kShuffled});
    ASSERT_TRUE(team.ok()) << name << " " << i << ": " << team.status();
    Tensors params = InitialParams(graph, static_cast<uint64_t>(i));
    for (uint64_t step = 0; step < 3; ++step) {
      // Where a sum is so near to the kink of a ReLU that it falls on the other side, gradients
      // differ by more than rounding. It does so for other samples at other places; what is wrong
      // is wrong for all.
      std::string why = "not tried";
      Tensors gradients;
      for (uint64_t draw = 0; draw < 3 && !why.empty(); ++draw) {
        kinks += draw > 0 ? 1 : 0;
        const Batch batch =
            RandomBatch(graph, batch_size, 10 * static_cast<uint64_t>(i) + step + 10000 * draw);
        (*team)->SetParams(params);
        const auto split = (*team)->Step(batch, step);
        ASSERT_TRUE(split.ok()) << name << " " << i << ": " << split.status();
        const auto whole = WholeStep(graph, plan, params, batch, step, {.backend = cpu, .seed = 3});
        const auto noise =
            WholeStep(graph, plan, params, batch, step, {.backend = reference, .seed = 3});
        why = Compare(graph, *split, *whole, *noise);
        gradients = split->Gradients();
      }
      ASSERT_EQ(why, "") << name << " " << i << TextOf(plan, strategy);
      for (size_t p = 0; p < params.size(); ++p) {
        for (size_t e = 0; e < params[p].size(); ++e) {
          params[p][e] -= 0.01f / static_cast<float>(batch_size) * gradients[p][e];
        }
      }
    }
  }
  RecordProperty("kinks", kinks);
  EXPECT_LE(kinks, 1 + models / 10);
}

// A model whose operators are whole, on seats at random or in a pipeline.
struct Placement {
  std::string name;
  models::Graph graph;
  OpGraph plan;
  Strategy strategy;
  uint32_t seats = 0;
  Tensors params;
  Batch batch;
};

Placement RandomPlacement(int i) {
  Draws draws(static_cast<uint64_t>(i), 2);
  const std::vector<std::string> names = models::ModelNames();
  Placement placed = {.name = names[static_cast<size_t>(i) % names.size()] + ":tiny"};
  placed.graph = *models::BuildModel(placed.name, models::ModelInput{});
  const int64_t micro_batches = int64_t{1} << draws.Between(0, 2);
  const int64_t samples = micro_batches * 2 + draws.Between(0, 1);
  placed.plan = *MakeOpGraph(placed.graph, {.batch = samples, .micro_batches = micro_batches});
  placed.seats = static_cast<uint32_t>(draws.Between(2, 4));
  placed.strategy =
      draws.Coin() ? RandomPipeline(placed.plan, placed.seats, &draws)
                   : RandomStrategy(placed.plan, {.seats = placed.seats, .splits = false}, &draws);
  placed.params = InitialParams(placed.graph, static_cast<uint64_t>(i));
  placed.batch = RandomBatch(placed.graph, samples, static_cast<uint64_t>(i));
  return placed;
}

// Whether a team leaves the bits of one process.
bool LeavesTheBits(const Placement& placed, SeatTurns turns,
                   const std::function<void(models::Section*)>& spoil) {
  static const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  const auto whole = WholeStep(placed.graph, placed.plan, placed.params, placed.batch, 1,
                               {.backend = cpu, .seed = 3});
  const Order order = CanonicalOrder(placed.plan, placed.strategy, placed.seats,
                                     turns == SeatTurns::kAscending ? 0 : 2);
  auto team = LocalTeam::Create(placed.plan, placed.strategy, order,
                                {.backend = cpu, .seed = 3, .turns = turns, .spoil = spoil});
  CHECK(team.ok()) << placed.name << ": " << team.status();
  (*team)->SetParams(placed.params);
  const auto split = (*team)->Step(placed.batch, 1);
  CHECK(split.ok()) << placed.name << ": " << split.status();
  return SameBits(*split, *whole) && split->correct == whole->correct;
}

// Operators that are whole, wherever they are, leave the bits of one process, whatever comes first.
TEST(LoweringTest, WholeOperatorsGiveTheBitsOfOneProcess) {
  const int models = Count("SOAPSTONE_MODELS", 20);
  for (int i = 0; i < models; ++i) {
    const Placement placed = RandomPlacement(i);
    for (const SeatTurns turns :
         {SeatTurns::kAscending, SeatTurns::kDescending, SeatTurns::kShuffled}) {
      EXPECT_TRUE(LeavesTheBits(placed, turns, nullptr))
          << placed.name << " " << i << TextOf(placed.plan, placed.strategy);
    }
  }
}

// The reader's kernel is given a plain tensor, not one in its producer's layout.
void PlainMessages(models::Section* section) {
  EachInput(section, [&](models::PartInput* input) {
    models::Assembly& from = input->from;
    if (from.kind != models::Assembly::Kind::kPass || !from.boxes.empty()) return;
    if (from.source.kind != models::BlockSource::Kind::kMessage) return;
    from.kind = models::Assembly::Kind::kBoxes;
    from.covered = true;
    const std::vector<int64_t> zero(input->spec.shape.size(), 0);
    from.boxes = {
        {.source = from.source, .move = {.size = input->spec.shape, .from = zero, .to = zero}}};
  });
}
// Gradients of a tensor with several readers are summed from the first reader on.
void TermsAscending(models::Section* section) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartOutput& output : section->parts[p].outputs) {
      std::reverse(output.terms.begin(), output.terms.end());
    }
  }
}

TEST(LoweringTest, EveryFaultOfBitsIsSeen) {
  const std::pair<const char*, Spoil> faults[] = {{"plain messages", PlainMessages},
                                                  {"terms ascending", TermsAscending}};
  for (const auto& [name, spoil] : faults) {
    int i = 0;
    while (i < 26 && LeavesTheBits(RandomPlacement(i), SeatTurns::kAscending, spoil)) ++i;
    EXPECT_LT(i, 26) << name << " lives";
    RecordProperty(absl::StrCat("models_to_death_", name), i + 1);
  }
}

// A tensor that one operator reads under two names: kernels that write in place may not do so.
TEST(LoweringTest, ATensorUnderTwoNamesIsNotOverwritten) {
  models::GraphBuilder b("two_names");
  models::TensorId x = b.Input("x", models::DataType::kFloat32, {4, 3});
  x = b.Apply("shift", compute::AddParameter{}, {x});
  const models::TensorId name = b.Apply("name", compute::Reshape{{4, 3}}, {x});
  const models::TensorId sum = b.Apply("sum", compute::Add{}, {name, x, x});
  b.Loss("loss", b.Apply("head", compute::Linear{.outputs = 7}, {b.Flatten("flat", sum)}));
  const models::Graph graph = *b.Build();
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 3});
  const Tensors params = InitialParams(graph, 1);
  const Batch batch = RandomBatch(graph, 3, 1);
  const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  const std::shared_ptr<compute::Backend> reference = compute::MakeReferenceBackend();
  const auto whole = WholeStep(graph, plan, params, batch, 1, {.backend = cpu});
  const auto right = WholeStep(graph, plan, params, batch, 1, {.backend = reference});
  EXPECT_EQ(Compare(graph, *whole, *right, *right), "");
}

TEST(LoweringTest, SeedsHaveKernelsOfTheirOwn) {
  models::GraphBuilder b("drop");
  models::TensorId x = b.Input("x", models::DataType::kFloat32, {40});
  x = b.Apply("drop", compute::Dropout{.rate = 0.5}, {x});
  b.Loss("loss", b.Apply("head", compute::Linear{.outputs = 7}, {x}));
  const models::Graph graph = *b.Build();
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 3});
  const Strategy strategy = SingleDevice(plan, 0);
  const TeamProgram program = *Lower(plan, strategy, CanonicalOrder(plan, strategy, 1));
  const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  const auto kernels = std::make_shared<models::KernelCache>();
  for (const uint64_t seed : {1, 2}) {
    EXPECT_TRUE(models::SectionRunner::Plan(program.seats[0].section,
                                            {.backend = cpu, .kernels = kernels, .seed = seed})
                    .ok());
  }
  EXPECT_EQ(kernels->size(), 2 + 2u);  // of each seed one that drops; head and loss are shared
}

// Evaluation: the forward half of any order, with the messages of that half alone.
TEST(LoweringTest, TheForwardHalfOfAPipelineRuns) {
  for (int i = 0; i < 26; ++i) {
    const Placement placed = RandomPlacement(i);
    const Order order = CanonicalOrder(placed.plan, placed.strategy, placed.seats, 1);
    auto team = LocalTeam::Create(placed.plan, placed.strategy, order,
                                  {.seed = 3, .turns = SeatTurns::kShuffled, .training = false});
    ASSERT_TRUE(team.ok()) << placed.name << ": " << team.status();
    (*team)->SetParams(placed.params);
    const auto split = (*team)->Step(placed.batch, 1);
    ASSERT_TRUE(split.ok()) << placed.name << ": " << split.status();
    const auto whole = WholeStep(placed.graph, placed.plan, placed.params, placed.batch, 1,
                                 {.seed = 3, .training = false});
    EXPECT_EQ(split->correct, whole->correct) << placed.name;
    EXPECT_NEAR(split->loss, whole->loss, 1e-6 * std::abs(whole->loss)) << placed.name;
  }
}

TEST(LoweringTest, ASeatHoldsTheParametersOfItsOwnPartsAlone) {
  const models::Graph graph = *models::BuildModel("alexnet:tiny", models::ModelInput{});
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 4});
  Draws draws(1);
  const Strategy strategy = RandomPipeline(plan, 3, &draws);
  const TeamProgram program = *Lower(plan, strategy, CanonicalOrder(plan, strategy, 3));
  size_t blocks = 0;
  for (const SeatProgram& seat : program.seats) blocks += seat.section.param_blocks.size();
  EXPECT_EQ(blocks, graph.params().size());
}

TEST(LoweringTest, WhatIsNoStrategyIsRefused) {
  const models::Graph graph = *models::BuildModel("lenet5:tiny", models::ModelInput{});
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 4});
  const Strategy good = SingleDevice(plan, 0);
  const Order order = CanonicalOrder(plan, good, 1);
  const auto refuses = [&](const Strategy& strategy, const Order& tasks) {
    return Lower(plan, strategy, tasks).status().code() == absl::StatusCode::kInvalidArgument;
  };
  Strategy strategy = good;
  strategy.ops.pop_back();
  EXPECT_TRUE(refuses(strategy, order));
  strategy = good;
  strategy.ops[0].devices.push_back(0);
  EXPECT_TRUE(refuses(strategy, order));
  strategy = good;
  strategy.ops[0].degrees.clear();
  EXPECT_TRUE(refuses(strategy, order));
  strategy = good;
  strategy.ops[0].devices[0] = 1;
  EXPECT_TRUE(refuses(strategy, order));
  Order tasks = order;
  tasks[0][0].part = 0x80000000;
  EXPECT_TRUE(refuses(good, tasks));
  tasks[0][0].part = UINT32_MAX;
  EXPECT_TRUE(refuses(good, tasks));
  EXPECT_EQ(CanonicalOrder(plan, good, 1, UINT32_MAX), order);
  // A batch that is smaller than the section's.
  auto team = LocalTeam::Create(plan, good, order, {});
  (*team)->SetParams(InitialParams(graph, 1));
  EXPECT_EQ((*team)->Step(RandomBatch(graph, 3, 1), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LoweringTest, WhatNoKernelRunsAloneIsNamed) {
  const models::Graph graph = *models::BuildModel("resnet50:tiny", models::ModelInput{});
  const OpGraph plan = *MakeOpGraph(graph, {.batch = 4});
  const Strategy strategy = DataParallel(plan, 2);
  const auto lowered = Lower(plan, strategy, CanonicalOrder(plan, strategy, 2));
  EXPECT_EQ(lowered.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(lowered.status().message()), HasSubstr("batch norm"));
}

}  // namespace
}  // namespace soapstone::planner
