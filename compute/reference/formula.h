// Formula: the mathematics of one operator at one shape, in plain loops and in double, with nothing
// of memory, formats or rounding. The reference backend (backend.h) makes kernels of formulas;
// reference_test.cc differentiates them numerically.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "compute/kernel.h"
#include "compute/op.h"

namespace soapstone::compute {

using Reals = std::vector<double>;  // one tensor, row-major; integers are whole numbers

struct FormulaTensors {
  std::vector<Reals> inputs, params, outputs;
  uint64_t step = 0, first_sample = 0;  // dropout's key
};
struct FormulaGrads {
  std::vector<Reals> outputs;  // none for the loss
  std::vector<Reals> inputs, params;
};

// Invariant: Backward uses nothing that `reads` does not name.
// Threading: const, so any number.
class Formula {
 public:
  // Of the tensors, what Backward needs besides parameters and output gradients.
  struct Reads {
    bool inputs = true;
    bool outputs = false;
  };

  explicit Formula(Reads reads) : reads_(reads) {}
  virtual ~Formula() = default;
  Reads reads() const { return reads_; }

  // From t->inputs and t->params to t->outputs, which are of their sizes and 0 before.
  virtual void Forward(FormulaTensors* t) const = 0;
  // From g->outputs to g->inputs (of those in f32) and g->params, all 0 before.
  virtual void Backward(const FormulaTensors& t, FormulaGrads* g) const = 0;

 private:
  const Reads reads_;
};

// Y = max(0, Z) of another formula's only output Z.
class ReluOf : public Formula {
 public:
  explicit ReluOf(std::unique_ptr<Formula> z)
      : Formula({.inputs = z->reads().inputs, .outputs = true}), z_(std::move(z)) {}
  void Forward(FormulaTensors* t) const override;
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override;

 private:
  const std::unique_ptr<Formula> z_;
};

// The request's shapes are those that models/ops infers; CHECKs guard what an operator's loops rely
// on. Each is in the file of its name: linear.cc, conv2d.cc, ...
std::unique_ptr<Formula> MakeFormula(const Linear& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Conv2d& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Pool& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const BatchNorm& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const LayerNorm& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const LocalResponseNorm& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Embedding& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Lstm& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const MultiHeadAttention& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const AdditiveAttention& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const PairwiseDot& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Activation& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Dropout& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Add& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Multiply& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const AddParameter& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Concat& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Split& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Reshape& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Transpose& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const Reduce& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const SoftmaxCrossEntropy& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const BatchMoments& op, const KernelRequest& request);
std::unique_ptr<Formula> MakeFormula(const NormalizeByMoments& op, const KernelRequest& request);

// Whichever request.op is.
std::unique_ptr<Formula> MakeFormula(const KernelRequest& request);

}  // namespace soapstone::compute
