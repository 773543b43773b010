#include "server/model/model_cursor.h"

#include <algorithm>

namespace soapstone::server {

ModelCursor::ModelCursor(std::shared_ptr<const wire::Layout> layout) : layout_(std::move(layout)) {
  for (const ParamSpec& param : layout_->params()) runs_.emplace_back(param);
  for (uint32_t k = 0; k < layout_->shard_count(); ++k) {
    const std::vector<wire::Bucket>& buckets = layout_->buckets(ShardId{k});
    for (uint32_t b = 0; b < buckets.size(); ++b) {
      for (uint32_t i = 0; i < buckets[b].slices.size(); ++i) {
        const wire::Slice& slice = buckets[b].slices[i];
        const uint32_t whole = WholeOf(layout_->params(), Index(slice.param));
        if (whole >= sources_.size()) sources_.resize(whole + 1);
        sources_[whole].push_back({slice, ShardId{k}, BucketId{b}, i});
      }
    }
  }
  if (!sources_.empty()) Enter(0);
}

// The first parameter from `whole` on that has elements.
void ModelCursor::Enter(uint32_t whole) {
  for (whole_ = whole; next_.empty() && whole_ < sources_.size(); ++whole_) {
    for (uint32_t s = 0; s < sources_[whole_].size(); ++s) {
      Put(s, sources_[whole_][s].slice.begin);
    }
    if (!next_.empty()) break;
  }
  if (!next_.empty()) Look();
}

void ModelCursor::Put(uint32_t source, uint64_t element) {
  const wire::Slice& slice = sources_[whole_][source].slice;
  if (element >= slice.end) return;
  next_.push({runs_[Index(slice.param)].RunAt(element).at, source, element});
}

void ModelCursor::Look() {
  const Next& next = next_.top();
  const Source& source = sources_[whole_][next.source];
  const uint64_t run = runs_[Index(source.slice.param)].RunAt(next.element).count;
  place_ = {.shard = source.shard,
            .bucket = source.bucket,
            .index = source.index,
            .begin = next.element - source.slice.begin,
            .count = std::min(run, source.slice.end - next.element)};
}

void ModelCursor::Advance() {
  const Next next = next_.top();
  next_.pop();
  ++passed_;
  Put(next.source, next.element + place_.count);
  if (next_.empty()) return Enter(whole_ + 1);
  Look();
}

}  // namespace soapstone::server
