#include "compute/reference/formula.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

class EmbeddingFormula : public Formula {
 public:
  explicit EmbeddingFormula(const Embedding& op) : Formula({}), op_(op) {}

  // Y[m,:] = W[ids[m],:]
  void Forward(FormulaTensors* t) const override {
    for (size_t m = 0; m < t->inputs[0].size(); ++m) {
      for (int64_t d = 0; d < op_.dim; ++d) {
        t->outputs[0][m * op_.dim + d] = t->params[0][RowOf(*t, m) * op_.dim + d];
      }
    }
  }

  // dW[ids[m],:] += dY[m,:]
  void Backward(const FormulaTensors& t, FormulaGrads* g) const override {
    for (size_t m = 0; m < t.inputs[0].size(); ++m) {
      for (int64_t d = 0; d < op_.dim; ++d) {
        g->params[0][RowOf(t, m) * op_.dim + d] += g->outputs[0][m * op_.dim + d];
      }
    }
  }

 private:
  int64_t RowOf(const FormulaTensors& t, size_t m) const {
    const int64_t row = static_cast<int64_t>(t.inputs[0][m]);
    CHECK(row >= 0 && row < op_.rows) << "id " << row << " outside of " << op_.rows << " rows";
    return row;
  }

  const Embedding op_;
};

}  // namespace

std::unique_ptr<Formula> MakeFormula(const Embedding& op, const KernelRequest&) {
  return std::make_unique<EmbeddingFormula>(op);
}

}  // namespace soapstone::compute
