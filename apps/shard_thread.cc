#include "apps/shard_thread.h"

#include <glog/logging.h>

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "apps/node_loop.h"

namespace soapstone::apps {
namespace {

constexpr size_t kInboxMax = 65'536;
constexpr absl::Duration kPutPatience = absl::Seconds(2);
constexpr absl::Duration kLookAgain = absl::Seconds(1);

}  // namespace

ShardThread::ShardThread(std::unique_ptr<server::Shard> shard,
                         std::optional<server::SnapshotTaker> taker, MessageInbox* out,
                         std::function<void()> wake)
    : shard_(std::move(shard)),
      taker_(std::move(taker)),
      in_(kInboxMax),
      out_(out),
      wake_(std::move(wake)),
      thread_([this] { Run(); }) {}

bool ShardThread::Put(wire::Message message) {
  return in_.Put(std::move(message), absl::Now() + kPutPatience);
}

const server::Shard& ShardThread::Join() {
  in_.Close();
  if (thread_.joinable()) thread_.join();
  return *shard_;
}

std::vector<server::Snapshot> ShardThread::TakeSnapshots() {
  if (taker_.has_value()) snapshots_.push_back(taker_->Last(shard_->store()));
  return std::move(snapshots_);
}

void ShardThread::Run() {
  wire::Outbox outbox;
  while (true) {
    std::optional<wire::Message> message = in_.Take(absl::Now() + kLookAgain);
    if (!message.has_value()) {
      if (in_.closed()) return;
      continue;
    }
    shard_->OnMessage(NodeLoop::Now(), *std::move(message), &outbox);
    if (taker_.has_value()) {
      auto snapshot = taker_->Look(NodeLoop::Now(), shard_->store());
      if (snapshot.has_value()) snapshots_.push_back(*std::move(snapshot));
    }
    for (wire::Message& answer : outbox.messages) {
      if (out_->Put(std::move(answer), absl::Now() + kPutPatience)) continue;
      LOG_IF(ERROR, !out_->closed())
          << "shard " << Index(shard_->id()) << ": its server takes no answers";
      in_.Close();
      return;
    }
    if (!outbox.messages.empty()) wake_();
    outbox.messages.clear();
  }
}

}  // namespace soapstone::apps
