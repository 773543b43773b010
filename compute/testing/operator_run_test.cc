// What RunCase must catch: kernels that break their contract.
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsNan;

enum class Fault {
  kNone,
  kReadsWhatItSaysItDoesNot,
  kLeavesItsOutput,
  kAddsToItsGradient,
  kWritesAnInput,
  kWritesAParameter,
  kLosesAnInputInPlace,
};

KernelPlan FaultyPlan(KernelPlan plan, Fault fault) {
  if (fault == Fault::kReadsWhatItSaysItDoesNot) plan.backward_reads_input[0] = false;
  if (fault == Fault::kLosesAnInputInPlace) plan.forward_in_place = true;
  return plan;
}

// The reference's kernel of a Linear with D = O, but for one fault.
class FaultyKernel : public Kernel {
 public:
  FaultyKernel(std::unique_ptr<Kernel> right, Fault fault)
      : Kernel(FaultyPlan(right->plan(), fault)), right_(std::move(right)), fault_(fault) {}

  void Forward(const ForwardArgs& args) override {
    if (fault_ != Fault::kLeavesItsOutput) right_->Forward(args);
    if (fault_ == Fault::kWritesAnInput) Spoil(args.inputs[0]);
    if (fault_ == Fault::kWritesAParameter) Spoil(args.params[1]);
  }
  void Backward(const BackwardArgs& args) override {
    const float before = *args.param_grads[1];
    right_->Backward(args);
    if (fault_ == Fault::kAddsToItsGradient) *args.param_grads[1] += before;
  }

 private:
  static void Spoil(const void* tensor) {
    *const_cast<float*>(static_cast<const float*>(tensor)) += 1;
  }
  const std::unique_ptr<Kernel> right_;
  const Fault fault_;
};

class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(Fault fault) : right_(MakeReferenceBackend()), fault_(fault) {}
  std::string_view name() const override { return "faulty"; }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    return std::make_unique<FaultyKernel>(*right_->Prepare(request), fault_);
  }
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    return right_->Allocate(bytes);
  }
  void Import(const void* plain, const Format& format, void* tensor) override {
    right_->Import(plain, format, tensor);
  }
  void Export(const Format& format, const void* tensor, void* plain) override {
    right_->Export(format, tensor, plain);
  }

 private:
  const std::unique_ptr<Backend> right_;
  const Fault fault_;
};

absl::StatusOr<CaseResult> RunWith(Fault fault) {
  const TensorSpec x{DataType::kFloat32, {2, 3}}, w{DataType::kFloat32, {3, 3}};
  const OperatorCase c{.name = "faulty",
                       .op = Linear{.outputs = 3},
                       .inputs = {x},
                       .params = {w, {DataType::kFloat32, {3}}},
                       .outputs = {x}};
  FaultyBackend backend(fault);
  return RunCase(&backend, c, ValuesOf(c, 1));
}

std::string ErrorWith(Fault fault) { return std::string(RunWith(fault).status().message()); }

TEST(RunCase, AcceptsAKernelWithoutAFault) {
  const absl::StatusOr<CaseResult> result = RunWith(Fault::kNone);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const std::vector<float>& grad : result->param_grads) {
    EXPECT_THAT(grad, Each(testing::Not(IsNan())));
  }
}

TEST(RunCase, WhatIsReadAgainstThePlanIsNan) {
  EXPECT_THAT(RunWith(Fault::kReadsWhatItSaysItDoesNot)->param_grads[0], Each(IsNan()));
}

TEST(RunCase, WhatIsNotWrittenIsNan) {
  EXPECT_THAT(RunWith(Fault::kLeavesItsOutput)->outputs[0], Each(IsNan()));
}

TEST(RunCase, WhatIsAddedToIsNan) {
  EXPECT_THAT(RunWith(Fault::kAddsToItsGradient)->param_grads[1][0], IsNan());
}

TEST(RunCase, RefusesWritesToInputsAndParameters) {
  EXPECT_THAT(ErrorWith(Fault::kWritesAnInput), HasSubstr("Forward wrote an input"));
  EXPECT_THAT(ErrorWith(Fault::kWritesAParameter), HasSubstr("Forward wrote a parameter"));
}

TEST(RunCase, RefusesAPlanThatLosesWhatBackwardReads) {
  EXPECT_THAT(ErrorWith(Fault::kLosesAnInputInPlace), HasSubstr("that Forward may overwrite"));
}

TEST(RelativeError, IsOfTheNorms) {
  EXPECT_DOUBLE_EQ(RelativeError({3, 5}, {3, 4}), 0.2);
  EXPECT_EQ(RelativeError({0, 0}, {0, 0}), 0);
  EXPECT_EQ(RelativeError({}, {}), 0);
}

TEST(RelativeError, IsInfiniteForNanAndOtherSizes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(RelativeError({nan}, {1})));
  EXPECT_TRUE(std::isinf(RelativeError({1}, {nan})));
  EXPECT_TRUE(std::isinf(RelativeError({1}, {1, 2})));
}

TEST(OperatorCases, NamesAreUnique) {
  std::set<std::string> names;
  for (const OperatorCase& c : OperatorCases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

TEST(OperatorCases, ValuesDependOnSeedAndCaseAlone) {
  const std::vector<OperatorCase> cases = OperatorCases();
  EXPECT_EQ(ValuesOf(cases[0], 1).inputs, ValuesOf(cases[0], 1).inputs);
  EXPECT_NE(ValuesOf(cases[0], 1).inputs, ValuesOf(cases[0], 2).inputs);
  EXPECT_NE(ValuesOf(cases[0], 1).inputs, ValuesOf(cases[1], 1).inputs);
}

}  // namespace
}  // namespace soapstone::compute
