// Writes ONNX files for tests, field by field, so that tests need no ONNX library and can write
// files that none would.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace soapstone::models {

// A protobuf message as bytes.
class ProtoBytes {
 public:
  ProtoBytes& Number(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtoBytes& Text(int field, const std::string& value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoBytes& Sub(int field, const ProtoBytes& value) { return Text(field, value.bytes_); }
  ProtoBytes& Float(int field, float value) {
    Varint(static_cast<uint64_t>(field) << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

inline ProtoBytes OnnxInt(const std::string& name, int64_t value) {
  return ProtoBytes().Text(1, name).Number(3, value).Number(20, 2);
}
inline ProtoBytes OnnxFloatAttribute(const std::string& name, float value) {
  return ProtoBytes().Text(1, name).Float(2, value).Number(20, 1);
}
inline ProtoBytes OnnxText(const std::string& name, const std::string& value) {
  return ProtoBytes().Text(1, name).Text(4, value).Number(20, 3);
}
inline ProtoBytes OnnxInts(const std::string& name, const std::vector<int64_t>& values) {
  ProtoBytes out;
  out.Text(1, name).Number(20, 7);
  for (int64_t v : values) out.Number(8, v);
  return out;
}

inline ProtoBytes OnnxNodeBytes(const std::string& op, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs,
                                const std::vector<ProtoBytes>& attributes = {}) {
  ProtoBytes out;
  for (const std::string& name : inputs) out.Text(1, name);
  for (const std::string& name : outputs) out.Text(2, name);
  out.Text(3, op + "_0").Text(4, op);
  for (const ProtoBytes& attribute : attributes) out.Sub(5, attribute);
  return out;
}

inline ProtoBytes OnnxFloats(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<float>& values) {
  ProtoBytes out;
  for (int64_t d : dims) out.Number(1, d);
  out.Number(2, 1).Text(8, name);
  return out.Text(9, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
}
inline ProtoBytes OnnxIntegers(const std::string& name, const std::vector<int64_t>& dims,
                               const std::vector<int64_t>& values) {
  ProtoBytes out;
  for (int64_t d : dims) out.Number(1, d);
  out.Number(2, 7).Text(8, name);
  for (int64_t v : values) out.Number(7, v);
  return out;
}

// dims behind the batch, which is "N"; -1: without a size. type: 1 float, 7 int64.
inline ProtoBytes OnnxInputBytes(const std::string& name, const std::vector<int64_t>& dims,
                                 int64_t type = 1) {
  ProtoBytes shape;
  shape.Sub(1, ProtoBytes().Text(2, "N"));
  for (int64_t d : dims) {
    shape.Sub(1, d < 0 ? ProtoBytes().Text(2, "time") : ProtoBytes().Number(1, d));
  }
  const ProtoBytes tensor = ProtoBytes().Number(1, type).Sub(2, shape);
  return ProtoBytes().Text(1, name).Sub(2, ProtoBytes().Sub(1, tensor));
}

struct OnnxParts {
  std::vector<ProtoBytes> nodes;
  std::vector<ProtoBytes> initializers;
  std::vector<ProtoBytes> inputs;
  std::vector<std::string> outputs = {"y"};
  int64_t opset = 17;

  std::string Bytes() const {
    ProtoBytes graph;
    for (const ProtoBytes& node : nodes) graph.Sub(1, node);
    graph.Text(2, "graph");
    for (const ProtoBytes& tensor : initializers) graph.Sub(5, tensor);
    for (const ProtoBytes& input : inputs) graph.Sub(11, input);
    for (const std::string& name : outputs) graph.Sub(12, ProtoBytes().Text(1, name));
    ProtoBytes model;
    model.Number(1, 8).Text(2, "a test").Sub(8, ProtoBytes().Number(2, opset)).Sub(7, graph);
    return model.bytes();
  }
};

}  // namespace soapstone::models
