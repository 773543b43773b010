// A value as bytes, and back: what one replica of an actor sends another that is to become it.
//
// A class says once what it consists of:
//
//   template <class Self, class Visitor>
//   static void Visit(Self& self, Visitor&& visit) { visit(self.clock_, self.held_); }
//
// What the constructor has made of the job is left out: the one who reads has made the same. Of a
// vector whose length is of the job too, Fixed(v) is visited, and another length is refused.
// Numbers are little-endian as in memory, of their own width: both ends are of one build, as a
// job's processes are. Payloads go beside the bytes as buffers, and are not copied.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/memory/buffer.h"

namespace soapstone {

// A vector whose length both ends know.
template <class Vector>
struct FixedLength {
  Vector& vector;
};
template <class Vector>
FixedLength<Vector> Fixed(Vector& vector) {
  return {vector};
}

// A class that has a format of its own is written and read by WriteState(StateWriter*, const T&)
// and bool ReadState(StateReader*, T*), which stand beside it.
class StateWriter {
 public:
  template <class... Fields>
  void operator()(const Fields&... fields) {
    (Write(fields), ...);
  }
  template <class T>
  void Write(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else if constexpr (requires { WriteState(this, value); }) {
      WriteState(this, value);
    } else {
      T::Visit(value, *this);
    }
  }
  void Write(const std::string& text) {
    Write(uint64_t{text.size()});
    bytes_.append(text);
  }
  void Write(const Buffer& buffer) {
    Write(uint64_t{buffer.size()});
    buffers_.push_back(buffer);
  }
  template <class A, class B>
  void Write(const std::pair<A, B>& pair) {
    Write(pair.first);
    Write(pair.second);
  }
  template <class T>
  void Write(const std::optional<T>& value) {
    Write(value.has_value());
    if (value.has_value()) Write(*value);
  }
  template <class T, class A>
  void Write(const std::vector<T, A>& values) {
    WriteAll(values);
  }
  template <class T, size_t kSize>
  void Write(const std::array<T, kSize>& values) {
    for (const T& value : values) Write(value);
  }
  template <class... Rest>
  void Write(const std::set<Rest...>& values) {
    WriteAll(values);
  }
  // Ascending: the same value has the same bytes.
  template <class T>
  void Write(const absl::flat_hash_set<T>& values) {
    std::vector<T> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    WriteAll(sorted);
  }
  template <class... Rest>
  void Write(const std::map<Rest...>& values) {
    Write(uint64_t{values.size()});
    for (const auto& [key, value] : values) {
      Write(key);
      Write(value);
    }
  }
  template <class Vector>
  void Write(const FixedLength<Vector>& fixed) {
    Write(fixed.vector);
  }
  // The alternative is the job's: both ends have the same.
  template <class... Types>
  void Write(const std::variant<Types...>& value) {
    std::visit([this](const auto& one) { Write(one); }, value);
  }

  std::string TakeBytes() { return std::move(bytes_); }
  Buffers TakeBuffers() { return std::move(buffers_); }

 private:
  template <class Values>
  void WriteAll(const Values& values) {
    Write(uint64_t{values.size()});
    for (const auto& value : values) Write(static_cast<typename Values::value_type>(value));
  }

  std::string bytes_;
  Buffers buffers_;
};

// Reads what a StateWriter wrote. What does not fit is an error and no crash: nothing is read from
// there on, and ok() is false. The value that was read into is good for nothing then.
class StateReader {
 public:
  // `bytes` outlives the reader.
  StateReader(std::string_view bytes, Buffers buffers)
      : bytes_(bytes), buffers_(std::move(buffers)) {}

  template <class... Fields>
  void operator()(Fields&&... fields) {
    (Read(&fields), ...);
  }
  template <class T>
  void Read(T* value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (bytes_.size() < sizeof(T)) return Fail();
      std::memcpy(value, bytes_.data(), sizeof(T));
      bytes_.remove_prefix(sizeof(T));
    } else if constexpr (requires { ReadState(this, value); }) {
      if (!ReadState(this, value)) Fail();
    } else {
      T::Visit(*value, *this);
    }
  }
  void Read(bool* value) {
    uint8_t byte = 0;
    Read(&byte);
    if (byte > 1) return Fail();
    *value = byte == 1;
  }
  void Read(std::string* text) {
    const size_t size = ReadCount();
    text->assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  void Read(Buffer* buffer) {
    uint64_t size = 0;
    Read(&size);
    if (next_ == buffers_.size() || buffers_[next_].size() != size) return Fail();
    *buffer = std::move(buffers_[next_++]);
  }
  template <class A, class B>
  void Read(std::pair<A, B>* pair) {
    Read(&pair->first);
    Read(&pair->second);
  }
  template <class T>
  void Read(std::optional<T>* value) {
    bool has = false;
    Read(&has);
    value->reset();
    if (has) Read(&value->emplace());
  }
  template <class T, class A>
  void Read(std::vector<T, A>* values) {
    ReadAll(values, [values](T&& value) { values->push_back(std::move(value)); });
  }
  template <class T, size_t kSize>
  void Read(std::array<T, kSize>* values) {
    for (T& value : *values) Read(&value);
  }
  template <class T, class... Rest>
  void Read(std::set<T, Rest...>* values) {
    ReadAll(values, [values](T&& value) { values->insert(std::move(value)); });
  }
  template <class T>
  void Read(absl::flat_hash_set<T>* values) {
    ReadAll(values, [values](T&& value) { values->insert(std::move(value)); });
  }
  template <class K, class V, class... Rest>
  void Read(std::map<K, V, Rest...>* values) {
    values->clear();
    for (size_t left = ReadCount(); left > 0 && ok_; --left) {
      K key{};
      Read(&key);
      Read(&(*values)[std::move(key)]);
    }
  }
  template <class Vector>
  void Read(FixedLength<Vector>* fixed) {
    const size_t size = fixed->vector.size();
    Read(&fixed->vector);
    if (fixed->vector.size() != size) Fail();
  }
  template <class... Types>
  void Read(std::variant<Types...>* value) {
    std::visit([this](auto& one) { Read(&one); }, *value);
  }

  void Fail() {
    ok_ = false;
    bytes_ = {};
  }
  bool ok() const { return ok_; }
  // Everything has been read, and no more was asked for.
  bool done() const { return ok_ && bytes_.empty() && next_ == buffers_.size(); }

 private:
  // Of things that take a byte each at least: more than there can be is an error.
  size_t ReadCount() {
    uint64_t count = 0;
    Read(&count);
    if (count <= bytes_.size()) return count;
    Fail();
    return 0;
  }
  template <class Values, class Add>
  void ReadAll(Values* values, const Add& add) {
    values->clear();
    for (size_t left = ReadCount(); left > 0 && ok_; --left) {
      typename Values::value_type value{};
      Read(&value);
      add(std::move(value));
    }
  }

  std::string_view bytes_;
  Buffers buffers_;
  size_t next_ = 0;
  bool ok_ = true;
};

}  // namespace soapstone
