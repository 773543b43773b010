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

ShardThread::ShardThread(std::unique_ptr<server::Shard> shard, MessageInbox* out,
                         std::function<void()> wake, ShardThreadOptions options)
    : shard_(std::move(shard)),
      in_(kInboxMax),
      out_(out),
      wake_(std::move(wake)),
      options_(std::move(options)),
      thread_([this] { Run(); }) {}

bool ShardThread::Put(wire::Message message) {
  return in_.Put({std::move(message), NodeLoop::Now()}, absl::Now() + kPutPatience);
}

const server::Shard& ShardThread::Join() {
  in_.Close();
  if (thread_.joinable()) thread_.join();
  return *shard_;
}

std::vector<server::Snapshot> ShardThread::TakeSnapshots() {
  if (options_.taker.has_value()) snapshots_.push_back(options_.taker->Last(shard_->store()));
  return std::move(snapshots_);
}

void ShardThread::Run() {
  wire::Outbox outbox;
  while (true) {
    std::optional<Arrival> arrival = in_.Take(absl::Now() + kLookAgain);
    if (!arrival.has_value()) {
      if (in_.closed()) return;
      continue;
    }
    const Nanos now = NodeLoop::Now();
    if (options_.recorder != nullptr) options_.recorder->Write(sim::EventOf(now, arrival->message));
    arrival->message.queued_ns = now - arrival->at;
    shard_->OnMessage(now, std::move(arrival->message), &outbox);
    if (options_.strict && shard_->ledger().first_violation().has_value()) {
      broken_ = true;
      in_.Close();
      return wake_();
    }
    if (options_.taker.has_value()) {
      auto snapshot = options_.taker->Look(NodeLoop::Now(), shard_->store());
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
