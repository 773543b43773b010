#include "checkpoint/box.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::checkpoint {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 60;  // bytes of them are a number too

bool Countable(const std::vector<int64_t>& extents) {
  int64_t elements = 1;
  for (const int64_t extent : extents) {
    if (extent <= 0 || elements > kElementsMax / extent) return false;
    elements *= extent;
  }
  return true;
}

// How far apart the indexes of each dimension are in a box.
std::vector<int64_t> StridesOf(const Box& box) {
  std::vector<int64_t> strides(box.extent.size(), 1);
  for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * box.extent[d];
  return strides;
}

// One of two stretches, while what they share is gone over.
class Side {
 public:
  explicit Side(const Stretch& of)
      : of_(of),
        strides_(StridesOf(of.box)),
        begin_(static_cast<int64_t>(of.begin)),
        end_(static_cast<int64_t>(of.end)) {}

  bool IsWholeIn(size_t d) const { return of_.box.extent[d] == of_.box.shape[d]; }
  int64_t first(size_t d) const { return of_.box.begin[d]; }
  int64_t last(size_t d) const { return of_.box.begin[d] + of_.box.extent[d]; }
  // Indexes [first_row, row_end) of the first dimension have all of the stretch.
  int64_t first_row() const { return first(0) + begin_ / strides_[0]; }
  int64_t row_end() const { return first(0) + (end_ + strides_[0] - 1) / strides_[0]; }
  // The element at these indexes; those behind are their dimension's first.
  int64_t At(const std::vector<int64_t>& index) const {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += (index[d] - of_.box.begin[d]) * strides_[d];
    return at;
  }
  // Of elements from `at` on: how many are before the stretch, and how many until its end.
  int64_t Before(int64_t at) const { return begin_ - at; }
  int64_t Until(int64_t at) const { return end_ - at; }

 private:
  const Stretch& of_;
  std::vector<int64_t> strides_;
  int64_t begin_, end_;
};

}  // namespace

uint64_t Box::elements() const {
  uint64_t n = 1;
  for (const int64_t e : extent) n *= static_cast<uint64_t>(e);
  return n;
}

Box WholeBox(std::vector<int64_t> shape) {
  Box box = {.shape = std::move(shape)};
  box.begin.assign(box.shape.size(), 0);
  box.extent = box.shape;
  return box;
}

Box BoxOf(const ParamSpec& spec) {
  if (!spec.piece.has_value()) return WholeBox(spec.shape);
  return {.shape = spec.piece->shape, .begin = spec.piece->begin, .extent = spec.shape};
}

const std::string& WholeName(const ParamSpec& spec) {
  return spec.piece.has_value() ? spec.piece->name : spec.name;
}

std::string BoxText(const Box& box) {
  if (box.is_whole()) return "";
  std::string text;
  for (size_t d = 0; d < box.begin.size(); ++d) {
    absl::StrAppend(&text, text.empty() ? "[" : ",", box.begin[d], ":",
                    box.begin[d] + box.extent[d]);
  }
  return text + "]";
}

bool IsBox(const Box& box) {
  const size_t dims = box.shape.size();
  if (box.begin.size() != dims || box.extent.size() != dims || !Countable(box.shape)) return false;
  for (size_t d = 0; d < dims; ++d) {
    if (box.begin[d] < 0 || box.extent[d] <= 0) return false;
    if (box.begin[d] > box.shape[d] - box.extent[d]) return false;
  }
  return true;
}

std::vector<SharedRun> SharedRuns(const Stretch& from, const Stretch& to) {
  if (from.begin >= from.end || to.begin >= to.end) return {};
  const size_t dims = from.box.shape.size();
  if (dims == 0) return {{.count = 1}};  // a number
  const Side a(from), b(to);
  std::vector<int64_t> low, high;
  for (size_t d = 0; d < dims; ++d) {
    low.push_back(std::max(a.first(d), b.first(d)));
    high.push_back(std::min(a.last(d), b.last(d)));
  }
  // In both what has one index of dimensions before `line` lies side by side.
  size_t line = dims - 1;
  int64_t behind = 1;
  while (line > 0 && a.IsWholeIn(line) && b.IsWholeIn(line)) behind *= from.box.shape[line--];
  if (line > 0) {
    low[0] = std::max({low[0], a.first_row(), b.first_row()});
    high[0] = std::min({high[0], a.row_end(), b.row_end()});
  }
  for (size_t d = 0; d <= line; ++d) {
    if (low[d] >= high[d]) return {};
  }
  const int64_t length = (high[line] - low[line]) * behind;
  std::vector<SharedRun> runs;
  std::vector<int64_t> index(low.begin(), low.begin() + static_cast<ptrdiff_t>(line) + 1);
  while (index[0] < high[0]) {
    const int64_t at_a = a.At(index), at_b = b.At(index);
    const int64_t skip = std::max({int64_t{0}, a.Before(at_a), b.Before(at_b)});
    const int64_t stop = std::min({length, a.Until(at_a), b.Until(at_b)});
    if (skip < stop) {
      runs.push_back({.from = static_cast<uint64_t>(at_a + skip),
                      .to = static_cast<uint64_t>(at_b + skip),
                      .count = static_cast<uint64_t>(stop - skip)});
    }
    size_t d = line;  // the next row: of the dimension before the line's
    if (d == 0) break;
    while (--d > 0 && index[d] + 1 == high[d]) index[d] = low[d];
    ++index[d];
  }
  return runs;
}

}  // namespace soapstone::checkpoint
