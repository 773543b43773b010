#include "models/data/text_data.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "models/data/split.h"
#include "models/data/vocabulary.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::models {
namespace {

constexpr int64_t kLengthMax = 65536;
constexpr int64_t kVocabularyMax = 16'777'216;
constexpr int kByteClasses = 256;

absl::Status BadText(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

absl::Status CheckTextOptions(const DataOptions& options) {
  if (options.length < 1 || options.length > kLengthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("length ", options.length, " is not within 1 and ", kLengthMax));
  }
  if (options.format != "bytes" &&
      (options.vocabulary < 1 || options.vocabulary > kVocabularyMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary ", options.vocabulary, " is not within 1 and ", kVocabularyMax));
  }
  return absl::OkStatus();
}

// --- One text ---

constexpr int32_t kLineEnd = 1;

// The words of a text with "" for the end of each line. A last line without an end has none.
std::vector<absl::string_view> WordsAndLineEnds(absl::string_view text) {
  std::vector<absl::string_view> words;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    for (const absl::string_view word : SplitWords(text.substr(0, end))) words.push_back(word);
    if (end == absl::string_view::npos) break;
    words.emplace_back();
    text.remove_prefix(end + 1);
  }
  return words;
}

std::vector<int32_t> NumbersOf(const std::vector<absl::string_view>& words,
                               const Vocabulary& vocabulary) {
  std::vector<int32_t> tokens;
  tokens.reserve(words.size());
  for (const absl::string_view word : words) {
    tokens.push_back(word.empty() ? kLineEnd : vocabulary.IdOf(word));
  }
  return tokens;
}

std::vector<int32_t> BytesOf(absl::string_view text) {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

absl::StatusOr<Dataset> Sequences(const std::string& what, int64_t length, int64_t classes,
                                  std::vector<int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) <= length) {
    return BadText(what, absl::StrCat(tokens.size(), " tokens are shorter than a sequence of ",
                                      length, " and the token after it"));
  }
  const auto shared = std::make_shared<const std::vector<int32_t>>(std::move(tokens));
  return Dataset{.classes = static_cast<int>(classes),
                 .columns = {WindowColumn("tokens", classes, length, 0, shared),
                             WindowColumn("labels", classes, length, 1, shared)}};
}

// Both parts as tokens, whatever a token is.
template <typename T>
struct TextParts {
  std::vector<T> train;
  std::vector<T> test;
};

// `test` is the held-out file's tokens; without one, the end of `train`.
template <typename T>
absl::StatusOr<TextParts<T>> PartsOf(const DataOptions& options, std::vector<T> train,
                                     std::vector<T> test) {
  if (options.test_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(const uint64_t held_out,
                          HeldOutCount(options.path, train.size(), options.test_fraction));
    const auto begin = train.end() - static_cast<ptrdiff_t>(held_out);
    test.assign(begin, train.end());
    train.erase(begin, train.end());
  }
  return TextParts<T>{std::move(train), std::move(test)};
}

absl::StatusOr<TrainTest> SequencesOfParts(const DataOptions& options, int64_t classes,
                                           TextParts<int32_t> parts) {
  TrainTest data;
  SOAP_ASSIGN_OR_RETURN(data.train,
                        Sequences(options.path, options.length, classes, std::move(parts.train)));
  const std::string held_out =
      options.test_path.empty() ? absl::StrCat(options.path, ", held-out part") : options.test_path;
  SOAP_ASSIGN_OR_RETURN(data.test,
                        Sequences(held_out, options.length, classes, std::move(parts.test)));
  data.vocabularies.resize(2);
  return data;
}

absl::StatusOr<TrainTest> LoadWords(const DataOptions& options, absl::string_view train_text,
                                    absl::string_view test_text) {
  SOAP_ASSIGN_OR_RETURN(
      const TextParts<absl::string_view> words,
      PartsOf(options, WordsAndLineEnds(train_text), WordsAndLineEnds(test_text)));
  WordCounts counts;
  for (const absl::string_view word : words.train) {
    if (!word.empty()) counts.Add(word);
  }
  SOAP_ASSIGN_OR_RETURN(
      const Vocabulary vocabulary,
      Vocabulary::Build(counts, {"<unk>", "<eos>"}, static_cast<uint64_t>(options.vocabulary)));
  SOAP_ASSIGN_OR_RETURN(TrainTest data, SequencesOfParts(options, vocabulary.size(),
                                                         {NumbersOf(words.train, vocabulary),
                                                          NumbersOf(words.test, vocabulary)}));
  data.vocabularies = {vocabulary.words(), vocabulary.words()};
  return data;
}

// --- Pairs of sentences ---

struct SentencePair {
  std::vector<absl::string_view> source;
  std::vector<absl::string_view> target;
};

// The pairs of a file of which no side has more than length − 1 words.
absl::StatusOr<std::vector<SentencePair>> SentencePairsOf(const std::string& path,
                                                          absl::string_view text, int64_t length) {
  std::vector<SentencePair> pairs;
  bool any = false;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (SplitWords(line).empty()) continue;
    any = true;
    const std::string place = absl::StrCat(path, ":", number);
    const std::vector<absl::string_view> sides = absl::StrSplit(line, '\t');
    if (sides.size() != 2) {
      return BadText(place, absl::StrCat(sides.size() - 1,
                                         " tabs; one is needed, between source "
                                         "and target"));
    }
    SentencePair pair = {SplitWords(sides[0]), SplitWords(sides[1])};
    if (pair.source.empty() || pair.target.empty()) {
      return BadText(place, pair.source.empty() ? "the source is empty" : "the target is empty");
    }
    const size_t longest = std::max(pair.source.size(), pair.target.size());
    if (static_cast<int64_t>(longest) < length) pairs.push_back(std::move(pair));
  }
  if (!pairs.empty()) return pairs;
  return BadText(path, any ? absl::StrCat("no pair fits a length of ", length,
                                          ": both sides need at most ", length - 1, " words")
                           : "no pairs in it");
}

// What stands around the words of a sentence of `length` tokens.
struct Framing {
  size_t length = 0;
  bool begins = false;  // with <s>
  bool ends = false;    // with </s>
  int32_t padding = kPadding;
};

void AppendSentence(const Vocabulary& vocabulary, const std::vector<absl::string_view>& words,
                    const Framing& framing, std::vector<int32_t>* out) {
  const size_t end = out->size() + framing.length;
  if (framing.begins) out->push_back(kSentence);
  for (const absl::string_view word : words) out->push_back(vocabulary.IdOf(word));
  if (framing.ends) out->push_back(kEnd);
  out->resize(end, framing.padding);
}

struct PairVocabularies {
  Vocabulary source;
  Vocabulary target;
};

absl::StatusOr<PairVocabularies> VocabulariesOf(const DataOptions& options,
                                                const std::vector<SentencePair>& pairs) {
  WordCounts source;
  WordCounts target;
  for (const SentencePair& pair : pairs) {
    for (const absl::string_view word : pair.source) source.Add(word);
    for (const absl::string_view word : pair.target) target.Add(word);
  }
  const std::vector<std::string> specials = {"<pad>", "<unk>", "<s>", "</s>"};
  const auto size_max = static_cast<uint64_t>(options.vocabulary);
  PairVocabularies out;
  SOAP_ASSIGN_OR_RETURN(out.source, Vocabulary::Build(source, specials, size_max));
  SOAP_ASSIGN_OR_RETURN(out.target, Vocabulary::Build(target, specials, size_max));
  return out;
}

Dataset Encode(const DataOptions& options, const PairVocabularies& vocabularies,
               const std::vector<SentencePair>& pairs) {
  const auto length = static_cast<size_t>(options.length);
  std::vector<int32_t> source;
  std::vector<int32_t> target;
  std::vector<int32_t> labels;
  for (const SentencePair& pair : pairs) {
    AppendSentence(vocabularies.source, pair.source, {.length = length, .ends = true}, &source);
    AppendSentence(vocabularies.target, pair.target, {.length = length, .begins = true}, &target);
    AppendSentence(vocabularies.target, pair.target,
                   {.length = length, .ends = true, .padding = kNoLabel}, &labels);
  }
  const auto column = [&](const char* name, const Vocabulary& words, std::vector<int32_t> tokens) {
    return IntColumn({.name = name, .is_float = false, .shape = {options.length}}, words.size(),
                     std::move(tokens));
  };
  return {.classes = static_cast<int>(vocabularies.target.size()),
          .columns = {column("source", vocabularies.source, std::move(source)),
                      column("target", vocabularies.target, std::move(target)),
                      column("labels", vocabularies.target, std::move(labels))}};
}

}  // namespace

absl::StatusOr<TrainTest> LoadTextData(const DataOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckTextOptions(options));
  SOAP_ASSIGN_OR_RETURN(const std::string train, ReadMaybeGzip(options.path));
  std::string test;
  if (!options.test_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(test, ReadMaybeGzip(options.test_path));
  }
  if (options.format == "words") return LoadWords(options, train, test);
  SOAP_ASSIGN_OR_RETURN(TextParts<int32_t> parts, PartsOf(options, BytesOf(train), BytesOf(test)));
  return SequencesOfParts(options, kByteClasses, std::move(parts));
}

std::vector<int32_t> TokensOf(absl::string_view text, const Vocabulary* vocabulary,
                              std::vector<std::string>* unknown) {
  if (vocabulary == nullptr) return BytesOf(text);
  const std::vector<absl::string_view> words = WordsAndLineEnds(text);
  for (const absl::string_view word : words) {
    if (!word.empty() && !vocabulary->Has(word)) unknown->emplace_back(word);
  }
  return NumbersOf(words, *vocabulary);
}

std::string TextOfTokens(const std::vector<int32_t>& tokens, const Vocabulary* vocabulary) {
  std::string text;
  for (const int32_t token : tokens) {
    if (vocabulary == nullptr) {
      text.push_back(static_cast<char>(static_cast<uint8_t>(token)));
    } else if (token == kLineEnd) {
      text.push_back('\n');
    } else {
      if (!text.empty() && text.back() != '\n') text.push_back(' ');
      text += vocabulary->words()[static_cast<size_t>(token)];
    }
  }
  return text;
}

absl::StatusOr<Dataset> LoadLaterText(const DataOptions& options,
                                      const std::vector<std::vector<std::string>>& vocabularies) {
  SOAP_RETURN_IF_ERROR(CheckTextOptions(options));
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(options.path));
  if (options.format == "bytes") {
    return Sequences(options.path, options.length, kByteClasses, BytesOf(text));
  }
  if (vocabularies.size() < 2) return BadText(options.path, "the model has no vocabulary");
  SOAP_ASSIGN_OR_RETURN(Vocabulary source, Vocabulary::OfWords(vocabularies.front()));
  if (options.format == "words") {
    return Sequences(options.path, options.length, source.size(),
                     NumbersOf(WordsAndLineEnds(text), source));
  }
  SOAP_ASSIGN_OR_RETURN(Vocabulary target, Vocabulary::OfWords(vocabularies.back()));
  SOAP_ASSIGN_OR_RETURN(const std::vector<SentencePair> pairs,
                        SentencePairsOf(options.path, text, options.length));
  return Encode(options, {std::move(source), std::move(target)}, pairs);
}

absl::StatusOr<TrainTest> LoadParallelData(const DataOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckTextOptions(options));
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(options.path));
  SOAP_ASSIGN_OR_RETURN(std::vector<SentencePair> train,
                        SentencePairsOf(options.path, text, options.length));
  std::string test_text;
  std::vector<SentencePair> test;
  if (options.test_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(
        const SplitIndexes split,
        SplitSamples(options.path, train.size(), options.test_fraction, options.seed));
    for (const uint64_t i : split.test) test.push_back(train[i]);
    std::vector<SentencePair> kept;
    for (const uint64_t i : split.train) kept.push_back(std::move(train[i]));
    train = std::move(kept);
  } else {
    SOAP_ASSIGN_OR_RETURN(test_text, ReadMaybeGzip(options.test_path));
    SOAP_ASSIGN_OR_RETURN(test, SentencePairsOf(options.test_path, test_text, options.length));
  }
  SOAP_ASSIGN_OR_RETURN(const PairVocabularies vocabularies, VocabulariesOf(options, train));
  const std::vector<std::string>& words = vocabularies.target.words();
  return TrainTest{.train = Encode(options, vocabularies, train),
                   .test = Encode(options, vocabularies, test),
                   .vocabularies = {vocabularies.source.words(), words, words}};
}

}  // namespace soapstone::models
