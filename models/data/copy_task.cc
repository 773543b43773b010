#include "models/data/copy_task.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "models/data/split.h"
#include "models/data/text_data.h"

namespace soapstone::models {
namespace {

constexpr int64_t kCopyLengthMax = 4096;
constexpr int64_t kCopyVocabularyMax = 1 << 24;
constexpr int64_t kCopyTokensMax = int64_t{1} << 28;

absl::Status CheckRange(const char* what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("copy: ", what, " ", value, " is not within ", low, " and ", high));
}

struct CopySentences {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
  std::vector<int32_t> labels;
};

void AppendCopySentence(const CounterRandom& random, const DataOptions& options,
                        CopySentences* out) {
  const auto tokens = static_cast<uint64_t>(options.vocabulary - kPairSpecials);
  for (uint64_t t = 0; t < static_cast<uint64_t>(options.length); ++t) {
    out->source.push_back(kPairSpecials + static_cast<int32_t>(random.Below(t, tokens)));
  }
  const auto begin = out->source.rbegin();
  const auto end = begin + static_cast<ptrdiff_t>(options.length);
  out->target.push_back(kSentence);
  out->target.insert(out->target.end(), begin, end);
  out->labels.insert(out->labels.end(), begin, end);
  out->labels.push_back(kEnd);
}

ColumnPtr CopyColumn(const char* name, const DataOptions& options, int64_t length,
                     std::vector<int32_t> tokens) {
  return IntColumn({.name = name, .is_float = false, .shape = {length}}, options.vocabulary,
                   std::move(tokens));
}

}  // namespace

absl::StatusOr<TrainTest> MakeCopyTask(const DataOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckRange("length", options.length, 1, kCopyLengthMax));
  SOAP_RETURN_IF_ERROR(
      CheckRange("vocabulary", options.vocabulary, kPairSpecials + 1, kCopyVocabularyMax));
  SOAP_RETURN_IF_ERROR(
      CheckRange("samples", options.samples, 2, kCopyTokensMax / (options.length + 1)));
  const auto n = static_cast<uint64_t>(options.samples);
  SOAP_ASSIGN_OR_RETURN(const uint64_t held_out, HeldOutCount("copy", n, options.test_fraction));
  CopySentences sentences;
  for (uint64_t i = 0; i < n; ++i) {
    AppendCopySentence(CounterRandom(options.seed, RandomUse::kSynthetic, i), options, &sentences);
  }
  const int64_t length = options.length;
  const Dataset all = {
      .classes = static_cast<int>(options.vocabulary),
      .columns = {CopyColumn("source", options, length, std::move(sentences.source)),
                  CopyColumn("target", options, length + 1, std::move(sentences.target)),
                  CopyColumn("labels", options, length + 1, std::move(sentences.labels))}};
  std::vector<uint64_t> indexes(n);
  std::iota(indexes.begin(), indexes.end(), 0);
  const auto middle = indexes.end() - static_cast<ptrdiff_t>(held_out);
  return TrainTest{.train = all.Take({indexes.begin(), middle}),
                   .test = all.Take({middle, indexes.end()}),
                   .vocabularies = std::vector<std::vector<std::string>>(3)};
}

}  // namespace soapstone::models
