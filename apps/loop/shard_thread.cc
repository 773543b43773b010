#include "apps/loop/shard_thread.h"

#include <glog/logging.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/loop/cpu_placement.h"
#include "apps/loop/node_loop.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

constexpr size_t kBehindMessages = 65'536;
constexpr size_t kInboxMax = 16 * kBehindMessages;
// A loop that takes no answers for so long has been counted out.
constexpr absl::Duration kAnswerPatience = absl::Minutes(1);
constexpr absl::Duration kShardLookAgain = absl::Seconds(1);
// Who writes rows down makes no room for so long: its disk hangs.
constexpr absl::Duration kWriterPatience = absl::Seconds(10);

}  // namespace

ShardThread::ShardThread(std::unique_ptr<server::Replica> replica, MessageInbox* out,
                         std::function<void()> wake, ShardThreadOptions options)
    : replica_(std::move(replica)),
      made_(true),
      serving_(true),
      in_(kInboxMax),
      out_(out),
      wake_(std::move(wake)),
      options_(std::move(options)) {
  if (options_.own_thread) thread_ = std::jthread([this] { Run(); });
}

ShardThread::ShardThread(ShardMaker make, MessageInbox* out, std::function<void()> wake,
                         ShardThreadOptions options)
    : make_(std::move(make)),
      in_(kInboxMax),
      out_(out),
      wake_(std::move(wake)),
      options_(std::move(options)) {
  thread_ = std::jthread([this] {
    Make();
    if (options_.own_thread && made()) Run();
  });
}

void ShardThread::Make() {
  replica_ = make_(&progress_);
  if (!progress_.wanted.load(std::memory_order_relaxed)) return;
  made_.store(true, std::memory_order_release);
  wake_();
}

bool ShardThread::Put(Nanos now, wire::Message message) {
  if (serving_ && !options_.own_thread) {
    return !in_.closed() && Handle(now, {std::move(message), now});
  }
  queued_bytes_.fetch_add(message.payload_bytes(), std::memory_order_relaxed);
  queued_.fetch_add(1, std::memory_order_relaxed);
  return in_.TryPut({std::move(message), now});
}

void ShardThread::Look(Nanos now) {
  if (serving_ || options_.own_thread || !made()) return;
  serving_ = true;
  while (std::optional<Arrival> arrival = in_.Take(SteadyTime::InfinitePast())) {
    TookFromQueue(arrival->message.payload_bytes());
    if (!Handle(now, *std::move(arrival))) return;
  }
}

bool ShardThread::behind() const {
  return queued_bytes_.load(std::memory_order_relaxed) > options_.queued_bytes_max ||
         queued_.load(std::memory_order_relaxed) > kBehindMessages;
}

Nanos ShardThread::BusyFor(Nanos now) const {
  const Nanos since = busy_since_.load(std::memory_order_relaxed);
  return since == 0 ? 0 : now - since;
}

std::string ShardThread::WhatItDoes() const {
  const wire::MessageType type = busy_with_.load(std::memory_order_relaxed);
  const char* what = type == wire::MessageType::kPush    ? "a push"
                     : type == wire::MessageType::kClock ? "a clock"
                     : type == wire::MessageType::kPull  ? "a pull"
                                                         : "a message";
  return absl::StrCat(what, " of clock ", busy_clock_.load(std::memory_order_relaxed));
}

const server::Replica& ShardThread::Join() {
  progress_.wanted = false;
  in_.Close();
  if (thread_.joinable()) thread_.join();
  return *replica_;
}

std::vector<server::Snapshot> ShardThread::TakeSnapshots() {
  if (options_.taker.has_value())
    snapshots_.push_back(options_.taker->Last(replica_->shard().store()));
  return std::move(snapshots_);
}

std::shared_ptr<const ShardStatus> ShardThread::AskStatus() {
  status_asked_.store(true, std::memory_order_relaxed);
  if (serving_ && !options_.own_thread) SayStatus();
  return status_.Get();
}

void ShardThread::SayStatus() {
  if (!status_asked_.exchange(false, std::memory_order_relaxed) || !replica_->is_head()) return;
  const server::Shard& shard = replica_->shard();
  const server::Ledger::Row all = shard.ledger().Total();
  status_.Set({.stats = shard.stats(),
               .read_lags = all.read_lags,
               .stalenesses = all.stalenesses,
               .violations = all.violations,
               .held_bytes = shard.held_bytes(),
               .reads = shard.Reads(NodeLoop::Now())});
}

void ShardThread::Run() {
  LOG_IF(WARNING, options_.cpu.has_value() && !StayOn(*options_.cpu))
      << "shard " << Index(replica_->shard().id()) << ": its thread cannot stay on CPU "
      << *options_.cpu;
  BoundedInbox<Arrival>::Items arrivals;
  while (true) {
    SayStatus();
    if (!in_.TakeAll(&arrivals, SteadyNow() + kShardLookAgain)) {
      if (in_.closed()) return;
      continue;
    }
    for (; !arrivals.empty(); arrivals.pop_front()) {
      const Nanos now = NodeLoop::Now();
      const wire::Message& message = arrivals.front().message;
      const uint64_t bytes = message.payload_bytes();
      busy_with_.store(message.type, std::memory_order_relaxed);
      busy_clock_.store(message.clock, std::memory_order_relaxed);
      busy_since_.store(now, std::memory_order_relaxed);
      if (!Handle(now, std::move(arrivals.front()))) return;
      TookFromQueue(bytes);
    }
    busy_since_.store(0, std::memory_order_relaxed);
  }
}

void ShardThread::NoteHandled(timeline::Event handled) {
  const Nanos now = NodeLoop::Now();
  handled.end_ns = now;
  if (handled.kind != timeline::EventKind::kNone) options_.events->Write(handled);
  for (const wire::Message& answer : outbox_.messages) {
    const timeline::Event answered = AnsweredEvent(answer, now);
    if (answered.kind != timeline::EventKind::kNone) options_.events->Write(answered);
  }
}

void ShardThread::LookAtOrder() {
  const server::Shard& shard = replica_->shard();
  const consistency::Policy& policy = shard.policy();
  const bool rounds = server::ChangesByRounds(policy.traits());
  const std::optional<Clock> due =
      order_.Look(policy.Frontier(), rounds ? kNoClock : shard.newest_push());
  const std::optional<Clock> missed = order_.TakeMissed();
  if (!due.has_value() && !missed.has_value()) return;
  wire::Message said;
  said.from = wire::Address::Of(shard.id());
  said.to = wire::Address::Scheduler();
  if (missed.has_value()) {
    said.type = wire::MessageType::kWritten;
    said.body = wire::Written{.frontier = *missed};
  } else {
    said.type = wire::MessageType::kCaptured;
    said.clock = *due;
    server::Capture capture = {
        .clock = *due, .slices = shard.store().Capture(), .tables = shard.store().CaptureTables()};
    captured_ = capture.tables;
    options_.captures(shard.id(), std::move(capture));
  }
  outbox_.Send(std::move(said));
}

void ShardThread::WaitForWriter() {
  const std::shared_ptr<server::TableCapture> rows = captured_.lock();
  if (rows == nullptr) return;
  rows->WaitForRoom(options_.own_thread ? SteadyNow() + kWriterPatience
                                        : SteadyTime::InfinitePast());
}

bool ShardThread::Handle(Nanos now, Arrival arrival) {
  WaitForWriter();
  // To capture is the shell's; the shard applies what it holds back for others.
  const bool order = arrival.message.type == wire::MessageType::kCheckpoint;
  if (order && !options_.captures) return true;
  if (order) order_.Take(arrival.message.clock);
  if (options_.recorder != nullptr) options_.recorder->Write(sim::EventOf(now, arrival.message));
  arrival.message.queued_ns = now - arrival.at;
  timeline::Event handled;
  if (options_.events != nullptr) handled = HandledEvent(arrival.message, now);
  replica_->OnMessage(now, std::move(arrival.message), &outbox_);
  if (options_.events != nullptr) NoteHandled(handled);
  const bool broken = options_.strict && replica_->shard().ledger().first_violation().has_value();
  if (broken || replica_->failure().has_value()) {
    broken_ = true;
    in_.Close();
    wake_();
    return false;
  }
  if (options_.taker.has_value()) {
    auto snapshot = options_.taker->Look(NodeLoop::Now(), replica_->shard().store());
    if (snapshot.has_value()) snapshots_.push_back(*std::move(snapshot));
  }
  return SendAll();
}

bool ShardThread::SendAll() {
  if (options_.captures && replica_->is_head()) LookAtOrder();
  if (outbox_.messages.empty()) return true;
  for (wire::Message& answer : outbox_.messages) {
    if (out_->Put(std::move(answer), SteadyNow() + kAnswerPatience)) continue;
    LOG_IF(ERROR, !out_->closed())
        << "shard " << Index(replica_->shard().id()) << ": its server takes no answers";
    in_.Close();
    return false;
  }
  if (options_.own_thread) wake_();
  outbox_.messages.clear();
  return true;
}

}  // namespace soapstone::apps
