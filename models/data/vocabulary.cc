#include "models/data/vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"

namespace soapstone::models {

std::vector<absl::string_view> SplitWords(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\r\n\v\f"), absl::SkipEmpty());
}

absl::StatusOr<Vocabulary> Vocabulary::Build(const WordCounts& counts,
                                             const std::vector<std::string>& specials,
                                             uint64_t size_max) {
  if (size_max <= specials.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", size_max, " is too small: ", specials.size(),
                     " are special tokens, so that at least ", specials.size() + 1, " are needed"));
  }
  Vocabulary vocabulary;
  vocabulary.words_ = specials;
  std::vector<std::pair<uint64_t, const std::string*>> frequent;
  for (const auto& [word, count] : counts.counts_) {
    if (std::find(specials.begin(), specials.end(), word) != specials.end()) continue;
    frequent.emplace_back(count, &word);
  }
  std::stable_sort(frequent.begin(), frequent.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [count, word] : frequent) {
    if (vocabulary.words_.size() == size_max) break;
    vocabulary.words_.push_back(*word);
  }
  for (size_t id = 0; id < vocabulary.words_.size(); ++id) {
    vocabulary.ids_.emplace(vocabulary.words_[id], static_cast<int32_t>(id));
  }
  const auto unknown = vocabulary.ids_.find("<unk>");
  CHECK(unknown != vocabulary.ids_.end());
  vocabulary.unknown_ = unknown->second;
  return vocabulary;
}

absl::StatusOr<Vocabulary> Vocabulary::OfWords(std::vector<std::string> words) {
  Vocabulary vocabulary;
  for (size_t id = 0; id < words.size(); ++id) {
    if (vocabulary.ids_.emplace(words[id], static_cast<int32_t>(id)).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary has word ", id, " twice"));
  }
  const auto unknown = vocabulary.ids_.find("<unk>");
  if (unknown == vocabulary.ids_.end()) {
    return absl::InvalidArgumentError("a vocabulary has no <unk>");
  }
  vocabulary.unknown_ = unknown->second;
  vocabulary.words_ = std::move(words);
  return vocabulary;
}

bool Vocabulary::Has(absl::string_view word) const {
  return ids_.find(std::string_view(word.data(), word.size())) != ids_.end();
}

int32_t Vocabulary::IdOf(absl::string_view word) const {
  const auto it = ids_.find(std::string_view(word.data(), word.size()));
  return it == ids_.end() ? unknown_ : it->second;
}

}  // namespace soapstone::models
