#include "sim/explore.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace soapstone::sim {

std::string ExploreReport::ToString() const {
  std::string text = absl::StrCat(states, " states, ", transitions, " transitions, ", ends,
                                  " ends, depth ", depth, complete ? ", complete" : ", incomplete");
  if (violation.has_value()) {
    absl::StrAppend(&text, "\n", *violation, "\n  ", absl::StrJoin(path, "\n  "));
  }
  return text;
}

}  // namespace soapstone::sim
