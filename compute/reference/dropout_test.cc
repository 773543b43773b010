#include <memory>
#include <set>
#include <vector>

#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

struct DropoutKey {
  uint64_t seed = 1;
  uint32_t op_index = 2;
  uint64_t step = 3, first_sample = 0;
};

// Dropout of ones [n, elements], and (by Backward) of gradients of one.
std::vector<float> DropOnes(const DropoutKey& key, double rate, int64_t n, int64_t elements,
                            bool backward = false) {
  const TensorSpec spec{DataType::kFloat32, {n, elements}};
  KernelRequest request{.op = Dropout{rate},
                        .name = "dropout",
                        .inputs = {PlainFormat(spec)},
                        .params = {},
                        .outputs = {spec},
                        .input_grads_wanted = {true},
                        .seed = key.seed,
                        .op_index = key.op_index};
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::unique_ptr<Kernel> kernel = *backend->Prepare(request);
  const std::vector<float> ones(n * elements, 1.0f);
  std::vector<float> result(n * elements);
  const void* from = ones.data();
  void* to = result.data();
  const void* unread = nullptr;
  if (backward) {
    kernel->Backward({.inputs = {&unread, 1},
                      .outputs = {&unread, 1},
                      .output_grads = {&from, 1},
                      .input_grads = {&to, 1},
                      .step = key.step,
                      .first_sample = key.first_sample});
  } else {
    kernel->Forward({.inputs = {&from, 1},
                     .outputs = {&to, 1},
                     .step = key.step,
                     .first_sample = key.first_sample});
  }
  return result;
}

// 40,000 draws: five standard deviations are 0.0115.
TEST(ReferenceDropout, DropsItsRateAndScalesTheRest) {
  int dropped = 0;
  for (float y : DropOnes({}, 0.3, 100, 400)) {
    dropped += y == 0 ? 1 : 0;
    if (y != 0) {
      EXPECT_FLOAT_EQ(y, 1 / 0.7f);
    }
  }
  EXPECT_NEAR(dropped / 40000.0, 0.3, 0.0115);
}

TEST(ReferenceDropout, BackwardDropsTheSame) {
  EXPECT_EQ(DropOnes({}, 0.4, 7, 13), DropOnes({}, 0.4, 7, 13, true));
}

// 13 elements do not fill whole words of random bits.
TEST(ReferenceDropout, DoesNotDependOnHowABatchIsSplit) {
  const std::vector<float> whole = DropOnes({.first_sample = 20}, 0.5, 6, 13);
  std::vector<float> parts = DropOnes({.first_sample = 20}, 0.5, 2, 13);
  const std::vector<float> rest = DropOnes({.first_sample = 22}, 0.5, 4, 13);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole, parts);
}

TEST(ReferenceDropout, EachPartOfItsKeyChangesWhatIsDropped) {
  std::set<std::vector<float>> masks;
  for (const DropoutKey& key : {DropoutKey{}, DropoutKey{.seed = 9}, DropoutKey{.op_index = 9},
                                DropoutKey{.step = 9}, DropoutKey{.first_sample = 9}}) {
    masks.insert(DropOnes(key, 0.5, 2, 64));
  }
  EXPECT_EQ(masks.size(), 5u);
}

TEST(ReferenceDropout, SamplesDropDifferently) {
  const std::vector<float> y = DropOnes({}, 0.5, 2, 64);
  EXPECT_NE(std::vector<float>(y.begin(), y.begin() + 64),
            std::vector<float>(y.begin() + 64, y.end()));
}

}  // namespace
}  // namespace soapstone::compute
