#include "apps/checkpoint_command/checkpoint_diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "apps/checkpoint_command/table_export.h"
#include "base/counted.h"
#include "base/plain_text.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

constexpr uint64_t kComparedElements = uint64_t{1} << 22;    // at hand, of each
constexpr uint64_t kComparedRowBytes = uint64_t{256} << 20;  // likewise, of rows

class Comparison {
 public:
  void Add(absl::Span<const float> a, absl::Span<const float> b) {
    for (size_t i = 0; i < a.size(); ++i) {
      const double before = static_cast<double>(a[i]);
      const double step = static_cast<double>(b[i]) - before;
      change_.changed += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
      // A number that is none stays: nothing is above it.
      if (std::isnan(step) || std::abs(step) > change_.largest) change_.largest = std::abs(step);
      steps_ += step * step;
      before_ += before * before;
    }
    change_.elements += a.size();
  }
  ValuesChange Finish() {
    change_.relative = std::sqrt(before_ == 0 ? steps_ : steps_ / before_);
    return change_;
  }

 private:
  ValuesChange change_;
  double steps_ = 0, before_ = 0;  // Σ (b − a)², Σ a²
};

absl::StatusOr<ValuesChange> Compare(const checkpoint::Image::Param& param, checkpoint::Image* a,
                                     checkpoint::Image* b) {
  Comparison comparison;
  std::vector<float> of_a, of_b;
  const checkpoint::Box whole = checkpoint::WholeBox(param.shape);
  for (uint64_t at = 0; at < whole.elements(); at += of_a.size()) {
    of_a.resize(std::min(kComparedElements, whole.elements() - at));
    of_b.resize(of_a.size());
    SOAP_RETURN_IF_ERROR(a->Fill(param.name, whole, at, {.values = absl::MakeSpan(of_a)}));
    SOAP_RETURN_IF_ERROR(b->Fill(param.name, whole, at, {.values = absl::MakeSpan(of_b)}));
    comparison.Add(of_a, of_b);
  }
  return comparison.Finish();
}

absl::StatusOr<std::vector<float>> RowsOf(const checkpoint::Image::Table& table,
                                          absl::Span<const uint64_t> keys,
                                          checkpoint::Image* image) {
  std::vector<float> rows;
  SOAP_RETURN_IF_ERROR(
      ExportRows(table, keys, UINT64_MAX, image, [&](const void* data, uint64_t bytes) {
        const auto* values = static_cast<const float*>(data);
        rows.assign(values, values + bytes / sizeof(float));
        return absl::OkStatus();
      }));
  return rows;
}

absl::Status CompareRows(const checkpoint::Image::Table& of_a, const checkpoint::Image::Table& of_b,
                         checkpoint::Image* a, checkpoint::Image* b, TableChange* change) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<uint64_t> before, SortedKeys(of_a, a));
  SOAP_ASSIGN_OR_RETURN(const std::vector<uint64_t> after, SortedKeys(of_b, b));
  std::vector<uint64_t> both;
  std::set_intersection(before.begin(), before.end(), after.begin(), after.end(),
                        std::back_inserter(both));
  change->rows = both.size();
  change->gone = before.size() - both.size();
  change->made = after.size() - both.size();
  change->reshaped = of_a.form.dim != of_b.form.dim;
  if (change->reshaped) return absl::OkStatus();
  Comparison comparison;
  const auto at_once = std::max<uint64_t>(1, kComparedRowBytes / (of_a.form.dim * sizeof(float)));
  for (size_t begin = 0; begin < both.size(); begin += at_once) {
    const auto window = absl::MakeConstSpan(both).subspan(begin, at_once);
    SOAP_ASSIGN_OR_RETURN(const std::vector<float> rows_a, RowsOf(of_a, window, a));
    SOAP_ASSIGN_OR_RETURN(const std::vector<float> rows_b, RowsOf(of_b, window, b));
    comparison.Add(rows_a, rows_b);
  }
  change->values = comparison.Finish();
  return absl::OkStatus();
}

std::string TextOfValues(const ValuesChange& values, const char* what) {
  if (values.changed == 0) return "the same";
  return absl::StrFormat("%d of %s changed, by %.3g in all, by %.3g at most", values.changed,
                         Counted(values.elements, what), values.relative, values.largest);
}

void PutValues(const ValuesChange& values, nlohmann::ordered_json* json) {
  (*json)["elements"] = values.elements;
  (*json)["changed"] = values.changed;
  (*json)["relative"] = values.relative;
  (*json)["largest"] = values.largest;
}

// By name: what either has.
template <class Item>
std::map<std::string, std::pair<const Item*, const Item*>> Paired(const std::vector<Item>& a,
                                                                  const std::vector<Item>& b) {
  std::map<std::string, std::pair<const Item*, const Item*>> paired;
  for (const Item& item : a) paired[item.name].first = &item;
  for (const Item& item : b) paired[item.name].second = &item;
  return paired;
}

}  // namespace

absl::StatusOr<std::vector<TensorChange>> TensorChanges(checkpoint::Image* a,
                                                        checkpoint::Image* b) {
  std::vector<TensorChange> changes;
  const std::vector<checkpoint::Image::Param> of_a = a->Params();
  const std::vector<checkpoint::Image::Param> of_b = b->Params();
  for (const auto& [name, pair] : Paired(of_a, of_b)) {
    TensorChange& change = changes.emplace_back(TensorChange{.name = name});
    if (pair.first == nullptr || pair.second == nullptr) {
      change.only = pair.first == nullptr ? "second" : "first";
      continue;
    }
    change.reshaped = pair.first->shape != pair.second->shape;
    if (change.reshaped) continue;
    SOAP_ASSIGN_OR_RETURN(change.values, Compare(*pair.first, a, b));
  }
  return changes;
}

absl::StatusOr<std::vector<TableChange>> TableChanges(checkpoint::Image* a, checkpoint::Image* b) {
  std::vector<TableChange> changes;
  SOAP_ASSIGN_OR_RETURN(const std::vector<checkpoint::Image::Table> of_a, a->Tables());
  SOAP_ASSIGN_OR_RETURN(const std::vector<checkpoint::Image::Table> of_b, b->Tables());
  for (const auto& [name, pair] : Paired(of_a, of_b)) {
    TableChange& change = changes.emplace_back(TableChange{.name = name});
    if (pair.first == nullptr || pair.second == nullptr) {
      change.only = pair.first == nullptr ? "second" : "first";
      continue;
    }
    SOAP_RETURN_IF_ERROR(CompareRows(*pair.first, *pair.second, a, b, &change));
  }
  return changes;
}

DiffText TextOf(const ComparedCheckpoint& first, const ComparedCheckpoint& second,
                const std::vector<TensorChange>& tensors, const std::vector<TableChange>& tables) {
  using OrderedJson = nlohmann::ordered_json;
  const bool one_job = first.meaning == second.meaning;
  DiffText said = {.json = {{"clocks", {first.clock, second.clock}},
                            {"same_job", one_job},
                            {"tensors", OrderedJson::array()},
                            {"tables", OrderedJson::array()}}};
  said.text = absl::StrCat("from checkpoint ", first.clock, " to checkpoint ", second.clock,
                           one_job ? "" : ", which are of different jobs", "\n");
  const auto add = [&](const std::string& name, const std::string& what) {
    absl::StrAppend(&said.text, PlainText(name), ": ", what, "\n");
  };
  for (const TensorChange& tensor : tensors) {
    OrderedJson json = {{"name", tensor.name}};
    if (!tensor.only.empty()) {
      json["only"] = tensor.only;
      add(tensor.name, absl::StrCat("the ", tensor.only, " alone has it"));
    } else if (tensor.reshaped) {
      json["reshaped"] = true;
      add(tensor.name, "of another shape");
    } else {
      PutValues(tensor.values, &json);
      add(tensor.name, TextOfValues(tensor.values, "element"));
    }
    said.json["tensors"].push_back(std::move(json));
  }
  for (const TableChange& table : tables) {
    OrderedJson json = {{"name", table.name}};
    if (!table.only.empty()) {
      json["only"] = table.only;
      add(table.name, absl::StrCat("the ", table.only, " alone has it"));
    } else {
      json["rows"] = {{"both", table.rows}, {"gone", table.gone}, {"made", table.made}};
      if (!table.reshaped) PutValues(table.values, &json);
      add(table.name, absl::StrCat(Counted(table.rows, "row"), " in both, ", table.gone, " gone, ",
                                   table.made, " made; ",
                                   table.reshaped ? "of other lengths"
                                                  : TextOfValues(table.values, "element")));
    }
    said.json["tables"].push_back(std::move(json));
  }
  return said;
}

}  // namespace soapstone::apps
