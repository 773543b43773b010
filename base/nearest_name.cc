#include "base/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace soapstone {
namespace {

constexpr size_t kLongest = 64;  // letters that are compared

// Changes from a to b: d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [a_i != b_j]), and
// d(i-2, j-2) + 1 where two letters are exchanged.
size_t ChangesBetween(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view given,
                                      const std::vector<std::string>& known) {
  const std::string wanted = absl::AsciiStrToLower(std::string(given.substr(0, kLongest)));
  std::vector<std::string> nearest;
  size_t least = kLongest;
  for (const std::string& name : known) {
    const std::string there = absl::AsciiStrToLower(name.substr(0, kLongest));
    const size_t changes = ChangesBetween(wanted, there);
    if (changes > std::max<size_t>(1, std::max(wanted.size(), there.size()) / 3)) continue;
    if (changes < least) nearest.clear();
    if (changes <= least) nearest.push_back(name);
    least = std::min(least, changes);
  }
  return nearest;
}

std::string DidYouMean(std::string_view given, const std::vector<std::string>& known) {
  const std::vector<std::string> nearest = NearestNames(given, known);
  return nearest.empty() ? ""
                         : absl::StrCat("; did you mean ", absl::StrJoin(nearest, " or "), "?");
}

}  // namespace soapstone
