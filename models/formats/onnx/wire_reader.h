// Reads the fields of one protobuf message in place: ONNX files are protobuf. Our own, since what
// it reads comes from strangers and may hold gigabytes of weights: nothing is copied, nothing
// recurses, and no field is longer than the bytes that are there. Called by onnx_file.cc alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace soapstone::models {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;       // kVarint, kFixed64, kFixed32
  absl::string_view bytes;  // kBytes: a view into the message
};

class WireReader {
 public:
  explicit WireReader(absl::string_view message) : rest_(message) {}

  // False at the end, and where the message is damaged: then ok() is false.
  bool Next(WireField* field);
  // The next number of a packed field, a run of numbers without tags.
  bool NextVarint(uint64_t* value);
  bool NextFixed32(uint32_t* value);

  bool ok() const { return ok_; }
  // Where reading stands: at or before the damage.
  const char* position() const { return rest_.data(); }

 private:
  bool Damaged() {
    ok_ = false;
    return false;
  }
  bool TakeVarint(uint64_t* value);
  bool TakeFixed(size_t size, uint64_t* value);

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace soapstone::models
