// Small cases of every operator, with odd shapes, and a run of one on any backend: by these the
// backends are compared with reference/, and reference/ with finite differences. For tests only.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compute/kernel.h"

namespace soapstone::compute {

struct OperatorCase {
  std::string name;  // e.g. "conv2d_groups_stride2"; unique
  Operator op;
  std::vector<TensorSpec> inputs, params, outputs;
  bool training = true;
  std::vector<bool> wanted = {};  // input gradients, by input; empty: of all inputs that are f32
};
std::vector<OperatorCase> OperatorCases();
void PrintTo(const OperatorCase& c, std::ostream* out);  // its name, for tests by case

// What RunCase prepares: inputs plain, the gradients that the case wants.
KernelRequest RequestOf(const OperatorCase& c);
// The dropout's key in RunCase.
inline constexpr uint64_t kCaseSeed = 11, kCaseStep = 5, kCaseFirstSample = 7;
inline constexpr uint32_t kCaseOpIndex = 3;

// What a case computes, all plain, from values that are a function of (seed, case) alone: inputs
// and parameters about 1 in size, integers in their range, output gradients likewise (none for the
// loss). Integer inputs have empty gradients.
struct CaseValues {
  std::vector<std::vector<float>> inputs;  // i32 inputs as bits
  std::vector<std::vector<float>> params;
  std::vector<std::vector<float>> output_grads;
};
CaseValues ValuesOf(const OperatorCase& c, uint64_t seed);

struct CaseResult {
  std::vector<std::vector<float>> outputs, input_grads, param_grads;
};
// Prepare, Import, Forward, Backward (if training), Export. Aliases are honoured where the plan has
// them, running in place where it offers that if `in_place`. All that a kernel is given to write or
// to work in holds NaN before it, and so does what the plan says that Backward does not read (it is
// null if `in_place`). Error, besides Prepare's: a plan that contradicts itself or the contract, or
// a kernel that wrote into an input or a parameter.
absl::StatusOr<CaseResult> RunCase(Backend* backend, const OperatorCase& c,
                                   const CaseValues& values, bool in_place = false);

// Infinite for different sizes and where a NaN is: ‖a − b‖ / max(‖b‖, tiny), in double.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace soapstone::compute
