// Vocabulary: words as numbers, the most frequent first. Built from the training part of a text;
// words it does not have are <unk>. Under the readers of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace soapstone::models {

// Words are what white space separates.
std::vector<absl::string_view> SplitWords(absl::string_view line);

class WordCounts {
 public:
  void Add(absl::string_view word) { ++counts_[std::string(word.data(), word.size())]; }

 private:
  friend class Vocabulary;
  std::map<std::string, uint64_t> counts_;
};

class Vocabulary {
 public:
  // `specials` have the first numbers, <unk> among them; then the most frequent words (ties in
  // order of bytes) up to `size_max` numbers in all. A word that is written like a special is it.
  // REQUIRES: "<unk>" is a special. Error: InvalidArgument where size_max leaves room for no word.
  static absl::StatusOr<Vocabulary> Build(const WordCounts& counts,
                                          const std::vector<std::string>& specials,
                                          uint64_t size_max);

  // Of words by number, as words() gives them. Error: InvalidArgument where one is there twice, or
  // "<unk>" is not.
  static absl::StatusOr<Vocabulary> OfWords(std::vector<std::string> words);

  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  int32_t IdOf(absl::string_view word) const;
  bool Has(absl::string_view word) const;
  const std::vector<std::string>& words() const { return words_; }  // by number

 private:
  std::vector<std::string> words_;
  std::map<std::string, int32_t, std::less<>> ids_;
  int32_t unknown_ = 0;
};

}  // namespace soapstone::models
