#include "models/formats/onnx/wire_reader.h"

#include <bit>
#include <cstring>

namespace soapstone::models {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// Seven bits a byte, the lowest first; the last byte is below 128. At most ten bytes.
bool WireReader::TakeVarint(uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return Damaged();
}

bool WireReader::TakeFixed(size_t size, uint64_t* value) {
  if (rest_.size() < size) return Damaged();
  *value = 0;
  std::memcpy(value, rest_.data(), size);
  rest_.remove_prefix(size);
  return true;
}

bool WireReader::NextVarint(uint64_t* value) { return ok_ && !rest_.empty() && TakeVarint(value); }

bool WireReader::NextFixed32(uint32_t* value) {
  uint64_t wide = 0;
  if (!ok_ || rest_.empty() || !TakeFixed(sizeof(*value), &wide)) return false;
  *value = static_cast<uint32_t>(wide);
  return true;
}

bool WireReader::Next(WireField* field) {
  uint64_t tag = 0;
  if (!NextVarint(&tag)) return false;
  const uint64_t number = tag >> 3;
  if (number == 0 || number > (uint64_t{1} << 29) - 1) return Damaged();
  field->number = static_cast<uint32_t>(number);
  field->type = static_cast<WireType>(tag & 7);
  switch (field->type) {
    case WireType::kVarint:
      return TakeVarint(&field->value);
    case WireType::kFixed64:
      return TakeFixed(8, &field->value);
    case WireType::kFixed32:
      return TakeFixed(4, &field->value);
    case WireType::kBytes:
      if (!TakeVarint(&field->value)) return false;
      if (field->value > rest_.size()) return Damaged();
      field->bytes = rest_.substr(0, field->value);
      rest_.remove_prefix(field->value);
      return true;
  }
  return Damaged();  // groups, which ONNX has none of, and types that are none
}

}  // namespace soapstone::models
