#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compute/reference/backend.h"
#include "compute/reference/formula.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

constexpr uint64_t kSeed = 1;

Reals ToReals(const TensorSpec& spec, const std::vector<float>& values) {
  Reals reals(values.begin(), values.end());
  if (spec.type == DataType::kFloat32) return reals;
  for (size_t i = 0; i < reals.size(); ++i) reals[i] = std::bit_cast<int32_t>(values[i]);
  return reals;
}

FormulaTensors TensorsOf(const OperatorCase& c, const CaseValues& values) {
  FormulaTensors t{.step = kCaseStep, .first_sample = kCaseFirstSample};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    t.inputs.push_back(ToReals(c.inputs[i], values.inputs[i]));
  }
  for (size_t i = 0; i < c.params.size(); ++i) {
    t.params.push_back(ToReals(c.params[i], values.params[i]));
  }
  return t;
}

void Compute(const OperatorCase& c, const Formula& formula, FormulaTensors* t) {
  t->outputs.clear();
  for (const TensorSpec& spec : c.outputs) t->outputs.emplace_back(spec.elements());
  formula.Forward(t);
}

// The derivatives of L = Σ g·Y (of the loss's own sum) by every element of inputs and parameters:
// central differences of the forward pass alone, in double, all but exact.
class NumericGradient {
 public:
  NumericGradient(const OperatorCase& c, const CaseValues& values)
      : case_(c),
        values_(values),
        formula_(MakeFormula(RequestOf(c))),
        tensors_(TensorsOf(c, values)) {}

  // Empty where a gradient is not asked for.
  std::vector<Reals> OfInputs() {
    const std::vector<bool> wanted = RequestOf(case_).input_grads_wanted;
    std::vector<Reals> grads;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      grads.push_back(wanted[i] ? Of(&tensors_.inputs[i]) : Reals());
    }
    return grads;
  }

  std::vector<Reals> OfParams() {
    std::vector<Reals> grads;
    for (Reals& param : tensors_.params) grads.push_back(Of(&param));
    if (std::holds_alternative<BatchNorm>(case_.op)) PutRunningStatistics(&grads);
    const auto* by_moments = std::get_if<NormalizeByMoments>(&case_.op);
    if (by_moments != nullptr) PutRunningStatistics(*by_moments, &grads);
    return grads;
  }

 private:
  Reals Of(Reals* at) {
    constexpr double kStep = 1e-5;
    Reals grad(at->size());
    for (size_t i = 0; i < at->size(); ++i) {
      const double x = (*at)[i];
      (*at)[i] = x + kStep;
      const double above = Loss();
      (*at)[i] = x - kStep;
      grad[i] = (above - Loss()) / (2 * kStep);
      (*at)[i] = x;
    }
    return grad;
  }

  double Loss() {
    Compute(case_, *formula_, &tensors_);
    double loss = 0;
    if (values_.output_grads.empty()) {
      for (double y : tensors_.outputs[0]) loss += y;
    }
    for (size_t k = 0; k < values_.output_grads.size(); ++k) {
      for (size_t i = 0; i < tensors_.outputs[k].size(); ++i) {
        loss += values_.output_grads[k][i] * tensors_.outputs[k][i];
      }
    }
    return loss;
  }

  // n·(r − r_now), by its definition in op.h.
  void PutRunningStatistics(std::vector<Reals>* grads) {
    const std::vector<int64_t>& shape = case_.inputs[0].shape;
    const Reals& x = tensors_.inputs[0];
    const int64_t places = case_.inputs[0].elements() / (shape[0] * shape[1]);
    for (int64_t c = 0; c < shape[1]; ++c) {
      double sum = 0, squares = 0, m = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (static_cast<int64_t>(i) / places % shape[1] != c) continue;
        sum += x[i];
        squares += x[i] * x[i];
        ++m;
      }
      const double n = static_cast<double>(shape[0]);
      (*grads)[2][c] = n * (tensors_.params[2][c] - sum / m);
      (*grads)[3][c] = n * (tensors_.params[3][c] - (squares - sum * sum / m) / (m - 1));
    }
  }

  // n·(r − r_now) of all rows, n this call's share of the samples.
  void PutRunningStatistics(const NormalizeByMoments& op, std::vector<Reals>* grads) {
    const int64_t channels = case_.inputs[0].shape[1];
    const double all = std::accumulate(op.counts.begin(), op.counts.end(), 0.0);
    const int64_t elements = case_.inputs[0].elements() / channels;
    const auto own = static_cast<double>(elements);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (size_t k = 0; k < op.counts.size(); ++k) {
        const double n = static_cast<double>(op.counts[k]);
        const size_t at = 2 * (k * static_cast<size_t>(channels) + static_cast<size_t>(c));
        const double mean = tensors_.inputs[1][at];
        sum += n * mean;
        squares += tensors_.inputs[1][at + 1] + n * mean * mean;
      }
      const double share = static_cast<double>(op.samples) * own / all;
      (*grads)[2][c] = share * (tensors_.params[2][c] - sum / all);
      (*grads)[3][c] = share * (tensors_.params[3][c] - (squares - sum * sum / all) / (all - 1));
    }
  }

  const OperatorCase& case_;
  const CaseValues& values_;
  const std::unique_ptr<Formula> formula_;
  FormulaTensors tensors_;
};

double Largest(const Reals& values) {
  double largest = 0;
  for (double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

// Whether each element is the numeric one within the rounding to float and the step's own error.
testing::AssertionResult IsGradient(const std::vector<float>& got, const Reals& numeric) {
  if (got.size() != numeric.size()) {
    return testing::AssertionFailure() << got.size() << " elements, not " << numeric.size();
  }
  const double allowed = 2e-6 * Largest(numeric) + 1e-7;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - numeric[i]) <= allowed) continue;
    return testing::AssertionFailure()
           << "element " << i << " is " << got[i] << ", numerically " << numeric[i];
  }
  return testing::AssertionSuccess();
}

// The mutant: another backend's kernels, one gradient of which is 5% too large.
class ScalingBackend : public Backend {
 public:
  ScalingBackend(Backend* right, bool param, size_t index)
      : right_(right), param_(param), index_(index) {}

  std::string_view name() const override { return "mutant"; }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    const int64_t elements =
        param_ ? request.params[index_].elements() : request.inputs[index_].spec.elements();
    return std::make_unique<ScalingKernel>(*right_->Prepare(request), param_, index_, elements);
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
  class ScalingKernel : public Kernel {
   public:
    ScalingKernel(std::unique_ptr<Kernel> right, bool param, size_t index, int64_t elements)
        : Kernel(PlanOf(*right)),
          right_(std::move(right)),
          param_(param),
          index_(index),
          elements_(elements) {}
    void Forward(const ForwardArgs& args) override { right_->Forward(args); }
    void Backward(const BackwardArgs& args) override {
      right_->Backward(args);
      float* grad =
          param_ ? args.param_grads[index_] : static_cast<float*>(args.input_grads[index_]);
      for (int64_t i = 0; i < elements_; ++i) grad[i] *= 1.05f;
    }

   private:
    // Gradients apart, so that scaling one leaves the others.
    static KernelPlan PlanOf(const Kernel& right) {
      KernelPlan plan = right.plan();
      plan.backward_alias = false;
      return plan;
    }
    const std::unique_ptr<Kernel> right_;
    const bool param_;
    const size_t index_;
    const int64_t elements_;
  };

  Backend* const right_;
  const bool param_;
  const size_t index_;
};

class ReferenceGradient : public testing::TestWithParam<OperatorCase> {};

// And one that is 5% too large is not.
TEST_P(ReferenceGradient, IsTheDerivative) {
  const OperatorCase& c = GetParam();
  const CaseValues values = ValuesOf(c, kSeed);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const absl::StatusOr<CaseResult> result = RunCase(backend.get(), c, values);
  ASSERT_TRUE(result.ok()) << result.status();
  NumericGradient numeric(c, values);
  int mutants = 0;
  for (const bool param : {false, true}) {
    const std::vector<Reals> expected = param ? numeric.OfParams() : numeric.OfInputs();
    const auto& got = param ? result->param_grads : result->input_grads;
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string what = (param ? "parameter " : "input ") + std::to_string(i);
      EXPECT_TRUE(IsGradient(got[i], expected[i])) << what;
      if (Largest(expected[i]) < 1e-4) continue;  // e.g. of the only key's score
      ScalingBackend mutant(backend.get(), param, i);
      const absl::StatusOr<CaseResult> wrong = RunCase(&mutant, c, values);
      ASSERT_TRUE(wrong.ok()) << wrong.status();
      EXPECT_FALSE(IsGradient(param ? wrong->param_grads[i] : wrong->input_grads[i], expected[i]))
          << what << "'s mutant was not caught";
      ++mutants;
    }
  }
  EXPECT_GT(mutants, 0);
}

std::vector<OperatorCase> TrainingCases() {
  std::vector<OperatorCase> cases;
  for (OperatorCase& c : OperatorCases()) {
    if (c.training) cases.push_back(std::move(c));
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Of, ReferenceGradient, testing::ValuesIn(TrainingCases()),
                         [](const auto& info) { return info.param.name; });

TEST(Reference, OutputsAreTheFormulasRounded) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  for (const OperatorCase& c : OperatorCases()) {
    SCOPED_TRACE(c.name);
    const CaseValues values = ValuesOf(c, kSeed);
    const absl::StatusOr<CaseResult> result = RunCase(backend.get(), c, values);
    ASSERT_TRUE(result.ok()) << result.status();
    FormulaTensors t = TensorsOf(c, values);
    Compute(c, *MakeFormula(RequestOf(c)), &t);
    ASSERT_EQ(result->outputs.size(), t.outputs.size());
    for (size_t k = 0; k < t.outputs.size(); ++k) {
      const std::vector<float> rounded(t.outputs[k].begin(), t.outputs[k].end());
      EXPECT_EQ(result->outputs[k], rounded) << "output " << k;
      EXPECT_GT(Largest(t.outputs[k]), 0) << "output " << k;
    }
  }
}

TEST(Reference, InPlaceIsTheSame) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  int places = 0;
  for (const OperatorCase& c : OperatorCases()) {
    SCOPED_TRACE(c.name);
    const CaseValues values = ValuesOf(c, kSeed);
    const KernelPlan plan = (*backend->Prepare(RequestOf(c)))->plan();
    places += (plan.forward_in_place ? 1 : 0) + (plan.backward_in_place ? 1 : 0);
    const absl::StatusOr<CaseResult> apart = RunCase(backend.get(), c, values);
    const absl::StatusOr<CaseResult> in_place = RunCase(backend.get(), c, values, true);
    ASSERT_TRUE(apart.ok()) << apart.status();
    ASSERT_TRUE(in_place.ok()) << in_place.status();
    EXPECT_EQ(apart->outputs, in_place->outputs);
    EXPECT_EQ(apart->input_grads, in_place->input_grads);
    EXPECT_EQ(apart->param_grads, in_place->param_grads);
  }
  EXPECT_GT(places, 100);
}

TEST(OperatorCases, EveryOperatorIsTrainedAndEvaluated) {
  std::vector<int> trained(std::variant_size_v<Operator>), evaluated(trained.size());
  for (const OperatorCase& c : OperatorCases()) ++(c.training ? trained : evaluated)[c.op.index()];
  EXPECT_THAT(trained, testing::Each(testing::Ge(2)));
  EXPECT_THAT(evaluated, testing::Each(testing::Ge(2)));
}

}  // namespace
}  // namespace soapstone::compute
