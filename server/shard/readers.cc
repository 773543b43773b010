#include "server/shard/readers.h"

#include <algorithm>

namespace soapstone::server {

using consistency::Ticket;
using wire::Message;

Readers::Reader& Readers::Of(WorkerId worker) {
  if (Index(worker) >= readers_.size()) readers_.resize(Index(worker) + 1);
  return readers_[Index(worker)];
}

void Readers::OnAsked(Nanos now, const Message& message) {
  Reader& reader = Of(message.worker);
  if (reader.waits && reader.asked == message.clock) return;
  reader.asked = message.clock;
  reader.asked_at = now;
  reader.queued_ns = message.queued_ns;
  reader.waits = true;
}

std::optional<Nanos> Readers::WaitsSince(WorkerId worker) const {
  if (Index(worker) >= readers_.size() || !readers_[Index(worker)].waits) return std::nullopt;
  return readers_[Index(worker)].asked_at;
}

std::optional<Message> Readers::PullOfSubscriber(WorkerId worker, Clock clock) const {
  if (clock >= final_clock_) return std::nullopt;
  Message pull;
  pull.worker = worker;
  pull.clock = clock;
  pull.body = wire::Pull{};
  return pull;
}

void Readers::OnAnswered(Nanos now, Message* reply) {
  Reader& reader = Of(reply->worker);
  auto& body = wire::As<wire::PullReply>(reply);
  body.parked_ns = now - reader.asked_at;
  body.queued_ns = reader.queued_ns;
  reader.waits = false;
  if (reader.reads.size() < reads_max_) reader.reads.emplace_back();
  Read& read = reader.reads[reader.next_read];
  reader.next_read = (reader.next_read + 1) % reads_max_;
  read.clock = reply->clock;
  read.versions = versions_;  // into the memory that it has
}

uint64_t Readers::StalenessOf(WorkerId worker, Clock clock, BucketId bucket) const {
  const uint64_t now = versions_[Index(bucket)];
  if (Index(worker) >= readers_.size() || readers_[Index(worker)].reads.empty()) return now;
  const std::vector<Read>& reads = readers_[Index(worker)].reads;
  const auto of_clock = std::find_if(reads.begin(), reads.end(),
                                     [&](const Read& read) { return read.clock == clock; });
  const size_t latest = (readers_[Index(worker)].next_read + reads_max_ - 1) % reads_max_;
  const Read& read = of_clock != reads.end() ? *of_clock : reads[latest];
  return now - read.versions[Index(bucket)];
}

Ticket Readers::Forget(WorkerId worker) {
  final_pulls_.erase(worker);
  return std::exchange(Of(worker), {}).pull;
}

void Readers::AddTo(Fingerprint* f) const {
  f->Add(readers_.size());
  f->Add(final_pulls_.size());
  for (const auto& [worker, pull] : final_pulls_) f->Add(worker);
}

}  // namespace soapstone::server
