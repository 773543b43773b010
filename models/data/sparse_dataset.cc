#include "models/data/sparse_dataset.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "models/data/recommendation/clicks.h"
#include "models/data/split.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::models {
namespace {

constexpr size_t kShownMax = 40;

using Lines = absl::Span<const absl::string_view>;

absl::Status BadLine(const std::string& path, size_t line, absl::string_view what,
                     absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ":", line + 1, ": '", absl::CHexEscape(what.substr(0, kShownMax)), "' ", why));
}

bool ParseNumber(absl::string_view text, float* value) {
  return absl::SimpleAtof(text, value) && std::isfinite(*value);
}

// The label, then index:value, ascending.
absl::Status ReadLibsvmLine(const std::string& path, size_t number, absl::string_view line,
                            SparseDataset* data) {
  const std::vector<absl::string_view> cells =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  float label = 0;
  if (!ParseNumber(cells[0], &label)) return BadLine(path, number, cells[0], "is no label");
  uint64_t before = 0;
  for (size_t i = 1; i < cells.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(cells[i], absl::MaxSplits(':', 1));
    uint64_t index = 0;
    float value = 0;
    if (!absl::SimpleAtoi(pair.first, &index) || !ParseNumber(pair.second, &value)) {
      return BadLine(path, number, cells[i], "is no index:value");
    }
    if (index <= before) {
      return BadLine(path, number, cells[i], "is out of order; indexes ascend from 1");
    }
    before = index;
    data->keys.push_back(index);
    data->values.push_back(value);
  }
  data->EndSample(label);
  return absl::OkStatus();
}

absl::Status ReadTriplesLine(const std::string& path, size_t number, absl::string_view line,
                             SparseDataset* data) {
  const std::vector<absl::string_view> cells =
      absl::StrSplit(line, absl::ByAnyChar(" \t,"), absl::SkipEmpty());
  uint64_t row = 0;
  uint64_t column = 0;
  float value = 0;
  if (cells.size() < 3 || !absl::SimpleAtoi(cells[0], &row) ||
      !absl::SimpleAtoi(cells[1], &column) || !ParseNumber(cells[2], &value)) {
    if (number == 0) return absl::OkStatus();  // a header
    return BadLine(path, number, line, "is no row, column and number");
  }
  data->keys.insert(data->keys.end(), {row, column});
  data->values.insert(data->values.end(), {1, 1});
  data->EndSample(value);
  return absl::OkStatus();
}

// log(1 + max(x, 0)); 0 where it is missing.
absl::Status ReadDenseCell(const std::string& path, size_t number, absl::string_view cell,
                           SparseDataset* data) {
  int64_t x = 0;
  if (!cell.empty() && !absl::SimpleAtoi(cell, &x)) {
    return BadLine(path, number, cell, "is no whole number");
  }
  data->dense.push_back(std::log1p(static_cast<float>(std::max<int64_t>(x, 0))));
  return absl::OkStatus();
}

// Categories of at most 15 digits: keys do not wrap round.
absl::Status ReadCategoryCell(const std::string& path, size_t number, absl::string_view cell,
                              SparseDataset* data) {
  constexpr size_t kDigitsMax = 15;
  for (const absl::string_view category : absl::StrSplit(cell, ',')) {
    uint64_t key = 0;
    if (!cell.empty()) {
      const bool digits = std::all_of(category.begin(), category.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      });
      if (!digits || category.size() > kDigitsMax || !absl::SimpleHexAtoi(category, &key)) {
        return BadLine(path, number, category, "is no category of 1 to 15 hexadecimal digits");
      }
      ++key;
    }
    data->keys.push_back(key);
    data->values.push_back(1);
  }
  return absl::OkStatus();
}

// The label, numbers, categories.
absl::Status ReadCriteoLine(const std::string& path, size_t number, absl::string_view line,
                            const SparseDataOptions& options, SparseDataset* data) {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
  const size_t first_category = 1 + options.dense_columns;
  const size_t wanted = first_category + options.categorical_columns;
  if (cells.size() != wanted) {
    return BadLine(path, number, line,
                   absl::StrCat("has ", cells.size(), " columns, not ", wanted, ": a label, ",
                                options.dense_columns, " numbers and ", options.categorical_columns,
                                " categories"));
  }
  if (cells[0] != "0" && cells[0] != "1") {
    return BadLine(path, number, cells[0], "is no label, 0 or 1");
  }
  data->dense_columns = options.dense_columns;
  for (size_t c = 1; c < first_category; ++c) {
    SOAP_RETURN_IF_ERROR(ReadDenseCell(path, number, cells[c], data));
  }
  for (size_t c = first_category; c < wanted; ++c) {
    SOAP_RETURN_IF_ERROR(ReadCategoryCell(path, number, cells[c], data));
    data->fields.resize(data->keys.size(), static_cast<uint32_t>(c - first_category));
  }
  data->EndSample(cells[0] == "1" ? 1 : 0);
  return absl::OkStatus();
}

using LineReader =
    std::function<absl::Status(const std::string&, size_t, absl::string_view, SparseDataset*)>;

absl::StatusOr<SparseDataset> ReadLines(const std::string& path, const LineReader& read) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(path));
  SparseDataset data;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripSuffix(line, "\r");
    if (!absl::StripAsciiWhitespace(line).empty()) {
      SOAP_RETURN_IF_ERROR(read(path, number, line, &data));
    }
    ++number;
  }
  if (data.size() == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": no samples"));
  return data;
}

// None for a format that is not read by lines.
std::optional<LineReader> LineReaderOf(const SparseDataOptions& options) {
  if (options.format == "libsvm") return ReadLibsvmLine;
  if (options.format == "triples") return ReadTriplesLine;
  if (options.format != "criteo") return std::nullopt;
  return
      [&options](const std::string& path, size_t number, absl::string_view line,
                 SparseDataset* data) { return ReadCriteoLine(path, number, line, options, data); };
}

SparseDataset Take(const SparseDataset& all, absl::Span<const uint64_t> indexes) {
  SparseDataset part;
  part.dense_columns = all.dense_columns;
  for (const uint64_t i : indexes) {
    const absl::Span<const uint64_t> keys = all.KeysOf(i);
    const absl::Span<const float> values = all.ValuesOf(i);
    part.keys.insert(part.keys.end(), keys.begin(), keys.end());
    part.values.insert(part.values.end(), values.begin(), values.end());
    const absl::Span<const float> dense = all.DenseOf(i);
    part.dense.insert(part.dense.end(), dense.begin(), dense.end());
    if (!all.fields.empty()) {
      const absl::Span<const uint32_t> fields = all.FieldsOf(i);
      part.fields.insert(part.fields.end(), fields.begin(), fields.end());
    }
    part.EndSample(all.labels[i]);
  }
  return part;
}

absl::StatusOr<SparseTrainTest> Split(const SparseDataOptions& options, const SparseDataset& all) {
  SOAP_ASSIGN_OR_RETURN(
      const SplitIndexes split,
      SplitSamples(options.path, all.size(), options.test_fraction, options.seed));
  SparseTrainTest data;
  data.test = Take(all, split.test);
  data.train = Take(all, split.train);
  return data;
}

std::vector<std::string> WordsOf(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      word.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

SparseDataset PairsOf(absl::Span<const uint64_t> ids, uint64_t window) {
  SparseDataset data;
  for (size_t centre = 0; centre < ids.size(); ++centre) {
    const size_t first = centre > window ? centre - window : 0;
    const size_t last = std::min<size_t>(ids.size(), centre + window + 1);
    for (size_t context = first; context < last; ++context) {
      if (context == centre) continue;
      data.keys.insert(data.keys.end(), {ids[centre], ids[context]});
      data.values.insert(data.values.end(), {1, 1});
      data.EndSample(1);
    }
  }
  return data;
}

// Words by frequency, most frequent first (ties in alphabetical order), those of min_count only.
std::map<std::string, uint64_t> Number(const std::vector<std::string>& words, uint64_t min_count,
                                       std::vector<std::string>* vocabulary) {
  std::map<std::string, uint64_t> counts;
  for (const std::string& word : words) ++counts[word];
  std::vector<std::pair<std::string, uint64_t>> frequent;
  for (const auto& [word, count] : counts) {
    if (count >= min_count) frequent.emplace_back(word, count);
  }
  std::stable_sort(frequent.begin(), frequent.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::map<std::string, uint64_t> ids;
  for (const auto& [word, count] : frequent) {
    ids.emplace(word, vocabulary->size());
    vocabulary->push_back(word);
  }
  return ids;
}

absl::StatusOr<SparseTrainTest> ReadTextPairs(const SparseDataOptions& options) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(options.path));
  const std::vector<std::string> words = WordsOf(text);
  SparseTrainTest data;
  const std::map<std::string, uint64_t> ids = Number(words, options.min_count, &data.vocabulary);
  if (ids.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": ", ids.size(), " words occur ",
                                                   options.min_count,
                                                   " times or more; at least 2 are needed"));
  }
  std::vector<uint64_t> sequence;
  for (const std::string& word : words) {
    if (const auto id = ids.find(word); id != ids.end()) sequence.push_back(id->second);
  }
  SOAP_ASSIGN_OR_RETURN(const uint64_t held_out,
                        HeldOutCount(options.path, sequence.size(), options.test_fraction));
  const auto all = absl::MakeConstSpan(sequence);
  const size_t kept = all.size() - held_out;
  data.train = PairsOf(all.first(kept), options.window);
  data.test = PairsOf(all.subspan(kept), options.window);
  data.word_counts.assign(data.vocabulary.size(), 0);
  for (const uint64_t id : all.first(kept)) ++data.word_counts[id];
  if (data.train.size() == 0 || data.test.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": too few words"));
  }
  return data;
}

}  // namespace

void SparseDataset::EndSample(float label) {
  begins.push_back(keys.size());
  labels.push_back(label);
}

std::string SparseDataset::Digest() const {
  Sha256 sha;
  const uint64_t sizes[] = {size(), keys.size()};
  sha.Update(sizes, sizeof(sizes));
  sha.Update(begins.data(), begins.size() * sizeof(uint64_t));
  sha.Update(keys.data(), keys.size() * sizeof(uint64_t));
  sha.Update(values.data(), values.size() * sizeof(float));
  sha.Update(labels.data(), labels.size() * sizeof(float));
  sha.Update(dense.data(), dense.size() * sizeof(float));
  sha.Update(fields.data(), fields.size() * sizeof(uint32_t));
  return sha.HexDigest();
}

absl::StatusOr<SparseTrainTest> LoadSparseData(const SparseDataOptions& options) {
  if (options.format == "text") return ReadTextPairs(options);
  if (options.format == "clicks") return MakeClicks(options);
  const std::optional<LineReader> read = LineReaderOf(options);
  if (!read.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown data format '", options.format,
                     "'; models over tables take libsvm, triples, text, criteo or clicks"));
  }
  SOAP_ASSIGN_OR_RETURN(SparseDataset all, ReadLines(options.path, *read));
  if (options.test_path.empty()) return Split(options, all);
  SparseTrainTest data;
  data.train = std::move(all);
  SOAP_ASSIGN_OR_RETURN(data.test, ReadLines(options.test_path, *read));
  return data;
}

absl::StatusOr<SparseTrainTest> LoadLaterSparseData(const SparseDataOptions& options) {
  const std::optional<LineReader> read = LineReaderOf(options);
  if (!read.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("data of format ", options.format,
                                                   " are not read apart from the training data"));
  }
  SparseTrainTest data;
  SOAP_ASSIGN_OR_RETURN(data.test, ReadLines(options.test_path, *read));
  data.train.dense_columns = data.test.dense_columns;
  return data;
}

}  // namespace soapstone::models
