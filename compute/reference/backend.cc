#include "compute/reference/backend.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// A null tensor is one of zeros (an output gradient that nobody computes).
Reals ReadReals(const TensorSpec& spec, const void* tensor) {
  Reals values(spec.elements());
  if (tensor == nullptr) return values;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = spec.type == DataType::kInt32
                    ? static_cast<double>(static_cast<const int32_t*>(tensor)[i])
                    : static_cast<double>(static_cast<const float*>(tensor)[i]);
  }
  return values;
}

void WriteReals(const TensorSpec& spec, const Reals& values, void* tensor) {
  CHECK_EQ(static_cast<int64_t>(values.size()), spec.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    if (spec.type == DataType::kInt32) {
      static_cast<int32_t*>(tensor)[i] = static_cast<int32_t>(values[i]);
    } else {
      static_cast<float*>(tensor)[i] = static_cast<float>(values[i]);
    }
  }
}

KernelPlan PlanOf(const KernelRequest& request, Formula::Reads reads) {
  KernelPlan plan;
  for (const TensorSpec& spec : request.outputs) plan.outputs.push_back(PlainFormat(spec));
  plan.backward_reads_input.assign(request.inputs.size(), reads.inputs);
  plan.backward_reads_output.assign(request.outputs.size(), reads.outputs);
  plan.alias = std::holds_alternative<Reshape>(request.op);
  const auto* add = std::get_if<Add>(&request.op);
  plan.backward_alias = add != nullptr && !add->relu;
  // All is read before anything is written, so only what Backward still reads stands in the way.
  const bool same_bytes = plan.outputs[0].bytes == request.inputs[0].bytes;
  plan.forward_in_place = same_bytes && (!request.training || !reads.inputs);
  plan.backward_in_place = same_bytes;
  return plan;
}

// A formula's values from and to memory, rounded once, at the end.
class FormulaKernel : public Kernel {
 public:
  FormulaKernel(const KernelRequest& request, std::unique_ptr<Formula> formula)
      : Kernel(PlanOf(request, formula->reads())),
        formula_(std::move(formula)),
        training_(request.training),
        params_(request.params),
        outputs_(request.outputs) {
    for (const Format& input : request.inputs) inputs_.push_back(input.spec);
  }

  void Forward(const ForwardArgs& args) override {
    FormulaTensors t{.step = args.step, .first_sample = args.first_sample};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      t.inputs.push_back(ReadReals(inputs_[i], args.inputs[i]));
    }
    for (size_t i = 0; i < params_.size(); ++i) {
      t.params.push_back(ReadReals(params_[i], args.params[i]));
    }
    for (const TensorSpec& spec : outputs_) t.outputs.emplace_back(spec.elements());
    formula_->Forward(&t);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      WriteReals(outputs_[i], t.outputs[i], args.outputs[i]);
    }
  }

  void Backward(const BackwardArgs& args) override {
    CHECK(training_) << "Backward of a kernel that was prepared for evaluation";
    FormulaTensors t{.step = args.step, .first_sample = args.first_sample};
    FormulaGrads g;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      t.inputs.push_back(formula_->reads().inputs ? ReadReals(inputs_[i], args.inputs[i])
                                                  : Reals());
      g.inputs.emplace_back(inputs_[i].elements());
    }
    for (size_t i = 0; i < params_.size(); ++i) {
      t.params.push_back(ReadReals(params_[i], args.params[i]));
      g.params.emplace_back(params_[i].elements());
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      t.outputs.push_back(formula_->reads().outputs ? ReadReals(outputs_[i], args.outputs[i])
                                                    : Reals());
      const bool given = i < args.output_grads.size();
      g.outputs.push_back(ReadReals(outputs_[i], given ? args.output_grads[i] : nullptr));
    }
    formula_->Backward(t, &g);
    for (size_t i = 0; i < args.input_grads.size(); ++i) {
      if (args.input_grads[i] != nullptr) WriteReals(inputs_[i], g.inputs[i], args.input_grads[i]);
    }
    for (size_t i = 0; i < args.param_grads.size(); ++i) {
      WriteReals(params_[i], g.params[i], args.param_grads[i]);
    }
  }

 private:
  const std::unique_ptr<Formula> formula_;
  const bool training_;
  std::vector<TensorSpec> inputs_;
  const std::vector<TensorSpec> params_, outputs_;
};

class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    for (const Format& input : request.inputs) CHECK(input.plain()) << request.name;
    return std::make_unique<FormulaKernel>(request, MakeFormula(request));
  }

  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    constexpr std::align_val_t kAlignment{64};
    void* memory = operator new(bytes, kAlignment, std::nothrow);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError("no memory for a tensor; use a smaller batch");
    }
    return std::shared_ptr<void>(memory, [](void* p) { operator delete(p, kAlignment); });
  }

  void Import(const void* plain, const Format& format, void* tensor) override {
    std::memcpy(tensor, plain, format.bytes);
  }
  void Export(const Format& format, const void* tensor, void* plain) override {
    std::memcpy(plain, tensor, format.bytes);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace soapstone::compute
