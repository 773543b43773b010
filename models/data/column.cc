#include "models/data/column.h"

#include <cstring>

#include "glog/logging.h"

namespace soapstone::models {
namespace {

template <typename T>
class WordColumn : public Column {
 public:
  WordColumn(FieldSpec spec, int64_t limit, std::vector<T> values)
      : Column(std::move(spec), limit), values_(std::move(values)) {
    CHECK_EQ(values_.size() % elements(), 0u);
  }
  uint64_t size() const override { return values_.size() / elements(); }
  void Read(uint64_t index, std::byte* words) const override {
    std::memcpy(words, values_.data() + index * elements(), elements() * sizeof(T));
  }

 private:
  const std::vector<T> values_;
};

class ScaledBytes : public Column {
 public:
  ScaledBytes(FieldSpec spec, float divisor, std::vector<uint8_t> values)
      : Column(std::move(spec), 0), divisor_(divisor), values_(std::move(values)) {
    CHECK_EQ(values_.size() % elements(), 0u);
  }
  uint64_t size() const override { return values_.size() / elements(); }
  void Read(uint64_t index, std::byte* words) const override {
    const uint8_t* bytes = values_.data() + index * elements();
    auto* out = reinterpret_cast<float*>(words);
    for (size_t i = 0; i < elements(); ++i) out[i] = static_cast<float>(bytes[i]) / divisor_;
  }

 private:
  const float divisor_;
  const std::vector<uint8_t> values_;
};

class Windows : public Column {
 public:
  Windows(FieldSpec spec, int64_t limit, int64_t offset,
          std::shared_ptr<const std::vector<int32_t>> tokens)
      : Column(std::move(spec), limit),
        offset_(static_cast<size_t>(offset)),
        tokens_(std::move(tokens)) {
    CHECK_LE(offset_, 1u);
  }
  uint64_t size() const override {
    return tokens_->empty() ? 0 : (tokens_->size() - 1) / elements();
  }
  void Read(uint64_t index, std::byte* words) const override {
    std::memcpy(words, tokens_->data() + index * elements() + offset_,
                elements() * sizeof(int32_t));
  }

 private:
  const size_t offset_;
  const std::shared_ptr<const std::vector<int32_t>> tokens_;
};

class Subset : public Column {
 public:
  Subset(ColumnPtr all, std::shared_ptr<const std::vector<uint64_t>> indexes)
      : Column(all->spec(), all->limit()), all_(std::move(all)), indexes_(std::move(indexes)) {
    for (const uint64_t index : *indexes_) CHECK_LT(index, all_->size());
  }
  uint64_t size() const override { return indexes_->size(); }
  void Read(uint64_t index, std::byte* words) const override {
    all_->Read((*indexes_)[index], words);
  }
  bool decodes() const override { return all_->decodes(); }
  void Hash(uint64_t index, Sha256* sha) const override { all_->Hash((*indexes_)[index], sha); }

 private:
  const ColumnPtr all_;
  const std::shared_ptr<const std::vector<uint64_t>> indexes_;
};

}  // namespace

void Column::Hash(uint64_t index, Sha256* sha) const {
  std::vector<std::byte> words(elements() * kWordBytes);
  Read(index, words.data());
  sha->Update(words.data(), words.size());
}

ColumnPtr FloatColumn(FieldSpec spec, std::vector<float> values) {
  return std::make_shared<WordColumn<float>>(std::move(spec), 0, std::move(values));
}

ColumnPtr IntColumn(FieldSpec spec, int64_t limit, std::vector<int32_t> values) {
  return std::make_shared<WordColumn<int32_t>>(std::move(spec), limit, std::move(values));
}

ColumnPtr ByteColumn(FieldSpec spec, float divisor, std::vector<uint8_t> values) {
  return std::make_shared<ScaledBytes>(std::move(spec), divisor, std::move(values));
}

ColumnPtr WindowColumn(std::string name, int64_t limit, int64_t length, int64_t offset,
                       std::shared_ptr<const std::vector<int32_t>> tokens) {
  return std::make_shared<Windows>(
      FieldSpec{.name = std::move(name), .is_float = false, .shape = {length}}, limit, offset,
      std::move(tokens));
}

ColumnPtr SubsetColumn(ColumnPtr all, std::shared_ptr<const std::vector<uint64_t>> indexes) {
  return std::make_shared<Subset>(std::move(all), std::move(indexes));
}

}  // namespace soapstone::models
