#include "models/zoo/dlrm.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

constexpr int64_t kWidthMax = 1 << 16;
constexpr int64_t kRowsMax = 1 << 30;

// Different categories of each column of the Criteo Kaggle data, as published with the paper's
// code.
constexpr std::array<int64_t, 26> kCriteoCategories = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

// "512-256-64"
absl::StatusOr<std::vector<int64_t>> ParseLayers(const Spec& spec, const char* key,
                                                 const std::vector<int64_t>& fallback) {
  std::vector<int64_t> widths;
  const std::string text = spec.Text(key, absl::StrJoin(fallback, "-"));
  for (const absl::string_view part : absl::StrSplit(text, '-')) {
    int64_t width = 0;
    if (!absl::SimpleAtoi(part, &width) || width < 1 || width > kWidthMax) {
      return absl::InvalidArgumentError(absl::StrCat(spec.name, ": ", key, "=", text,
                                                     ": layers are widths of 1 to ", kWidthMax,
                                                     " joined by -, as in 512-256-64"));
    }
    widths.push_back(width);
  }
  return widths;
}

}  // namespace

bool IsHashedDlrm(std::string_view spec) {
  return spec.substr(0, spec.find(':')) == kHashedDlrmName;
}

absl::StatusOr<DlrmSize> ParseDlrm(std::string_view text) {
  DlrmSize size;
  std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), absl::ByAnyChar(":,"));
  const auto tiny = std::find(parts.begin(), parts.end(), "tiny");
  if (tiny != parts.end()) {
    size.dim = 8;
    size.bottom = {32};
    size.top = {32};
    size.rows_max = 1000;
    parts.erase(tiny);
  }
  const std::string options = absl::StrJoin(parts.begin() + 1, parts.end(), ",");
  SOAP_ASSIGN_OR_RETURN(const Spec spec,
                        Spec::Parse(absl::StrCat(parts[0], options.empty() ? "" : ":", options)));
  std::vector<std::string> known = {"dense", "categorical", "dim", "bottom", "top"};
  if (IsHashedDlrm(text)) known.emplace_back("rows");
  SOAP_RETURN_IF_ERROR(spec.AllowOnly(known));
  SOAP_ASSIGN_OR_RETURN(size.dense, spec.Int("dense", size.dense, 1, 4096));
  SOAP_ASSIGN_OR_RETURN(size.categorical, spec.Int("categorical", size.categorical, 1, 1024));
  SOAP_ASSIGN_OR_RETURN(size.dim, spec.Int("dim", size.dim, 1, 4096));
  SOAP_ASSIGN_OR_RETURN(size.bottom, ParseLayers(spec, "bottom", size.bottom));
  SOAP_ASSIGN_OR_RETURN(size.top, ParseLayers(spec, "top", size.top));
  SOAP_ASSIGN_OR_RETURN(size.rows_max, spec.Int("rows", size.rows_max, 2, kRowsMax));
  return size;
}

TensorId AddDlrmBottom(const DlrmSize& size, TensorId numbers, GraphBuilder* b) {
  std::vector<int64_t> widths = size.bottom;
  widths.push_back(size.dim);
  TensorId x = numbers;
  for (size_t l = 0; l < widths.size(); ++l) {
    x = b->Apply(absl::StrCat("bottom.", l), compute::Linear{.outputs = widths[l], .relu = true},
                 {x});
  }
  return x;
}

void AddDlrmTop(const DlrmSize& size, TensorId z_0, const std::vector<TensorId>& z_f,
                GraphBuilder* b) {
  std::vector<TensorId> all = {b->Apply("vector", compute::Reshape{{1, size.dim}}, {z_0})};
  all.insert(all.end(), z_f.begin(), z_f.end());
  const TensorId vectors = b->Apply("vectors", compute::Concat{1}, std::move(all));
  const TensorId pairs = b->Apply("pairs", compute::PairwiseDot{}, {vectors});
  TensorId x = b->Apply("features", compute::Concat{1}, {z_0, pairs});
  for (size_t l = 0; l < size.top.size(); ++l) {
    x = b->Apply(absl::StrCat("top.", l), compute::Linear{.outputs = size.top[l], .relu = true},
                 {x});
  }
  b->Loss("loss",
          b->Apply(absl::StrCat("top.", size.top.size()), compute::Linear{.outputs = 2}, {x}));
}

// Embeddings come first: their vectors are on their way while the numbers go through bottom.
absl::StatusOr<Graph> BuildHashedDlrm(const ModelSpec& spec) {
  SOAP_ASSIGN_OR_RETURN(const DlrmSize size, ParseDlrm(spec.text));
  const std::vector<int64_t>& of_data = spec.input.categories;
  if (spec.input.classes > 0 && of_data.empty()) {
    return absl::InvalidArgumentError(
        "dlrm_hashed takes numbers and categories, as data of format criteo and clicks have them");
  }
  GraphBuilder b(kHashedDlrmName);
  const TensorId numbers = b.Input("dense", DataType::kFloat32, {size.dense});
  std::vector<TensorId> categories;
  for (int64_t f = 0; f < size.categorical; ++f) {
    categories.push_back(b.Input(absl::StrCat("category.", f), DataType::kInt32, {1}));
  }
  std::vector<TensorId> rows;
  for (size_t f = 0; f < categories.size(); ++f) {
    // One more, for categories that are in no row of their own.
    const int64_t own =
        std::min(kCriteoCategories[f % kCriteoCategories.size()] + 1, size.rows_max);
    rows.push_back(
        b.Apply(absl::StrCat("embedding.", f),
                compute::Embedding{.rows = f < of_data.size() ? of_data[f] : own, .dim = size.dim},
                {categories[f]}));
  }
  const TensorId z_0 = AddDlrmBottom(size, numbers, &b);
  AddDlrmTop(size, z_0, rows, &b);
  return b.Build();
}

}  // namespace soapstone::models
