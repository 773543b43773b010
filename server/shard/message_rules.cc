#include "server/shard/message_rules.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/leaf_tree.h"

namespace soapstone::server {
namespace {

using wire::Message;
using wire::MessageType;

std::string WhyMicroBatchesAreWrong(const wire::Push& push, const ShardOptions& options,
                                    uint32_t worker_count) {
  const bool gradient = options.policy.pushes_gradients();
  const uint32_t micro_batch_count = gradient ? options.micro_batch_count : worker_count;
  if (push.micro_batch_count != micro_batch_count || push.micro_batches.empty() ||
      push.micro_batches.end > micro_batch_count) {
    return absl::StrCat("micro-batches [", push.micro_batches.begin, ", ", push.micro_batches.end,
                        ") of ", push.micro_batch_count, "; the job has ", micro_batch_count);
  }
  if (options.policy.fixed_tree && !IsCanonicalNode(push.micro_batches, micro_batch_count)) {
    return "the micro-batches are not a node of the summation tree";
  }
  if (gradient && (push.batch_samples == 0 || push.samples > push.batch_samples)) {
    return absl::StrCat(push.samples, " samples of a batch of ", push.batch_samples);
  }
  return "";
}

std::string WhyPushIsMalformed(const Message& push, const ShardOptions& options, const Store& store,
                               uint32_t worker_count) {
  const auto& body = wire::As<wire::Push>(push);
  if (Index(body.bucket) >= options.layout->bucket_count(options.id)) {
    return absl::StrCat("no bucket ", Index(body.bucket), " on this shard");
  }
  std::string why = WhyMicroBatchesAreWrong(body, options, worker_count);
  if (!why.empty() || !store.checks_payload()) return why;
  if (const auto table = options.layout->TableOf(options.id, body.bucket)) {
    return store.tables()->WhyNotRows(*table, push.payload);
  }
  const auto& slices = options.layout->buckets(options.id)[Index(body.bucket)].slices;
  if (push.payload.size() != slices.size()) {
    return absl::StrCat(push.payload.size(), " payload frames for ", slices.size(), " slices");
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    if (push.payload[i].size() != slices[i].elements() * sizeof(float)) {
      return absl::StrCat("payload frame ", i, " has ", push.payload[i].size(),
                          " bytes; slice has ", slices[i].elements() * sizeof(float));
    }
    if (!push.payload[i].IsFloatAligned()) {
      return absl::StrCat("payload frame ", i, " is not aligned for floats");
    }
  }
  return "";
}

std::string WhyPullIsMalformed(const Message& pull, const Store& store) {
  if (store.tables() != nullptr) return store.tables()->WhyNotKeys(pull.payload);
  return pull.payload.empty() ? "" : "the model has no table to take rows of";
}

}  // namespace

std::string WhyMalformed(const Message& message, const ShardOptions& options, const Store& store,
                         uint32_t worker_count) {
  if (message.clock < 0 || message.clock > options.final_clock) {
    return absl::StrCat("clock ", message.clock, " is outside [0, ", options.final_clock, "]");
  }
  switch (message.type) {
    case MessageType::kPush:
      return WhyPushIsMalformed(message, options, store, worker_count);
    case MessageType::kPull:
      return WhyPullIsMalformed(message, store);
    default:
      return "";
  }
}

bool HoldsSlices(const Message& message, const ShardOptions& options, const Store& store) {
  if (!store.checks_payload()) return true;
  const std::vector<wire::Slice>& slices = options.layout->slices(options.id);
  return std::equal(slices.begin(), slices.end(), message.payload.begin(), message.payload.end(),
                    [](const wire::Slice& slice, const Buffer& buffer) {
                      return buffer.size() == slice.elements() * sizeof(float) &&
                             buffer.IsFloatAligned();
                    });
}

}  // namespace soapstone::server
