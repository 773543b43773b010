#include "apps/shard_thread.h"

#include <glog/logging.h>

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "apps/cpu_placement.h"
#include "apps/node_loop.h"

namespace soapstone::apps {
namespace {

constexpr size_t kInboxMax = 65'536;
constexpr absl::Duration kShardPutPatience = absl::Seconds(2);
constexpr absl::Duration kShardLookAgain = absl::Seconds(1);

}  // namespace

ShardThread::ShardThread(std::unique_ptr<server::Shard> shard, MessageInbox* out,
                         std::function<void()> wake, ShardThreadOptions options)
    : shard_(std::move(shard)),
      in_(kInboxMax),
      out_(out),
      wake_(std::move(wake)),
      options_(std::move(options)) {
  if (options_.own_thread) thread_ = std::jthread([this] { Run(); });
}

bool ShardThread::Put(Nanos now, wire::Message message) {
  if (!options_.own_thread) {
    return !in_.closed() && Handle(now, {std::move(message), now});
  }
  return in_.Put({std::move(message), now}, absl::Now() + kShardPutPatience);
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
  LOG_IF(WARNING, options_.cpu.has_value() && !StayOn(*options_.cpu))
      << "shard " << Index(shard_->id()) << ": its thread cannot stay on CPU " << *options_.cpu;
  BoundedInbox<Arrival>::Items arrivals;
  while (true) {
    if (!in_.TakeAll(&arrivals, absl::Now() + kShardLookAgain)) {
      if (in_.closed()) return;
      continue;
    }
    for (; !arrivals.empty(); arrivals.pop_front()) {
      if (!Handle(NodeLoop::Now(), std::move(arrivals.front()))) return;
    }
  }
}

bool ShardThread::Handle(Nanos now, Arrival arrival) {
  if (options_.recorder != nullptr) options_.recorder->Write(sim::EventOf(now, arrival.message));
  arrival.message.queued_ns = now - arrival.at;
  shard_->OnMessage(now, std::move(arrival.message), &outbox_);
  if (options_.strict && shard_->ledger().first_violation().has_value()) {
    broken_ = true;
    in_.Close();
    wake_();
    return false;
  }
  if (options_.taker.has_value()) {
    auto snapshot = options_.taker->Look(NodeLoop::Now(), shard_->store());
    if (snapshot.has_value()) snapshots_.push_back(*std::move(snapshot));
  }
  if (outbox_.messages.empty()) return true;
  for (wire::Message& answer : outbox_.messages) {
    if (out_->Put(std::move(answer), absl::Now() + kShardPutPatience)) continue;
    LOG_IF(ERROR, !out_->closed())
        << "shard " << Index(shard_->id()) << ": its server takes no answers";
    in_.Close();
    return false;
  }
  if (options_.own_thread) wake_();
  outbox_.messages.clear();
  return true;
}

}  // namespace soapstone::apps
