// What a store has, as bytes and back (base/memory/state_image.h). Values go as views of what the
// store has now; the optimizer's state is copied, since an update changes it where it is.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/memory/state_image.h"
#include "glog/logging.h"
#include "server/store/store.h"
#include "server/store/tensor_store.h"

namespace soapstone::server {
namespace {

void WriteFloats(StateWriter* writer, const std::vector<float>& values) {
  writer->Write(Buffer::CopyOf(absl::MakeConstSpan(values)));
}

// Empty, or `elements` numbers.
bool ReadFloats(StateReader* reader, size_t elements, std::vector<float>* values) {
  Buffer bytes;
  reader->Read(&bytes);
  if (!reader->ok() || (bytes.size() != 0 && bytes.size() != elements * sizeof(float))) {
    return false;
  }
  values->resize(bytes.size() / sizeof(float));
  if (bytes.size() > 0) std::memcpy(values->data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace

void TensorStore::WriteTo(StateWriter* writer) const {
  for (const BucketValues& bucket : buckets_) writer->Write(bucket.samples);
  const Buffers values = Read();
  for (size_t i = 0; i < slices_.size(); ++i) {
    writer->Write(values[i]);
    WriteFloats(writer, slices_[i].state.first);
    WriteFloats(writer, slices_[i].state.second);
    writer->Write(slices_[i].state.steps);
    WriteFloats(writer, slices_[i].block);
  }
  writer->Write(read_by_);
}

bool TensorStore::ReadFrom(StateReader* reader) {
  read_.clear();
  for (uint32_t b = 0; b < buckets_.size(); ++b) {
    reader->Read(&buckets_[b].samples);
    Own(BucketId{b});  // whoever still has the former values keeps them
  }
  for (SliceValues& slice : slices_) {
    const size_t elements = slice.values.size();
    Buffer values;
    reader->Read(&values);
    if (!reader->ok() || values.size() != elements * sizeof(float)) return false;
    std::memcpy(slice.values.data(), values.data(), values.size());
    if (!ReadFloats(reader, elements, &slice.state.first) ||
        !ReadFloats(reader, elements, &slice.state.second)) {
      return false;
    }
    reader->Read(&slice.state.steps);
    if (!ReadFloats(reader, elements, &slice.block)) return false;
  }
  reader->Read(&read_by_);
  for (Buffers& read : read_by_) {
    if (!read.empty() && read.size() != slices_.size()) return false;
    for (size_t i = 0; i < read.size(); ++i) {
      if (read[i].size() != slices_[i].values.size() * sizeof(float)) return false;
      if (!read[i].IsFloatAligned()) read[i] = Buffer::CopyOf(read[i].data(), read[i].size());
    }
  }
  if (!reader->ok()) return false;
  if (options_.checks) {
    for (uint32_t b = 0; b < buckets_.size(); ++b) Sum(BucketId{b});
  }
  return true;
}

void WriteState(StateWriter* writer, const Store& store) {
  CHECK(store.tables_ == nullptr) << "tables are in no image";
  if (store.tensors_ != nullptr) store.tensors_->WriteTo(writer);
  if (store.counts_.has_value()) writer->Write(*store.counts_);
  writer->Write(store.stamps_);
}

bool ReadState(StateReader* reader, Store* store) {
  if (store->tables_ != nullptr) return false;
  if (store->tensors_ != nullptr && !store->tensors_->ReadFrom(reader)) return false;
  if (store->counts_.has_value()) reader->Read(&*store->counts_);
  reader->Read(&store->stamps_);
  return reader->ok();
}

}  // namespace soapstone::server
