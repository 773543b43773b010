#include "scheduler/coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_codes.h"

namespace soapstone::scheduler {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Notice;
using wire::Outbox;
using wire::Role;

constexpr Nanos kWaitingNewsEvery = 5 * kSecond;
constexpr size_t kNewsMax = 1000;
constexpr Epoch kFirstEpoch = 1;

Notice Expelled() { return {kExitPeerLost, "expelled: was silent for too long"}; }

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(options),
      nodes_(options.servers, options.workers),
      members_(options.workers, options.shards_per_server),
      acks_(options.servers * options.shards_per_server),
      rebalancer_(options.rebalance) {}

void Coordinator::Start(Nanos now, Outbox* out) {
  wait_began_ = waiting_told_ = now;
  tick_due_ = now + options_.heartbeat_ns;
  out->SetTimer(kTick, tick_due_);
}

// ---- Messages

void Coordinator::OnMessage(Nanos now, const Message& message, Outbox* out) {
  if (ended_.has_value()) return AnswerAfterTheEnd(message, out);
  if (message.type == MessageType::kHello) return OnHello(now, message, out);
  // Session 0 passes: actors do not know the session, where no shell stamps it (simulation).
  if (message.session != 0 && message.session != options_.session) {
    ++ignored_;
    return;
  }
  const bool of_shard = message.from.role == Role::kShard;
  if (message.type == MessageType::kRosterAck && of_shard) return OnRosterAck(now, message, out);
  if (!IsFromRegistered(message, out)) {
    ++ignored_;
    return;
  }
  nodes_.Hear(message.from, now);
  if (message.type == MessageType::kHeartbeat) {
    out->Send(To(message.from, MessageType::kHeartbeatAck));
  }
  if (message.from.role == Role::kWorker) return OnWorkerMessage(now, message, out);
  if (message.type == MessageType::kHeartbeat) return;
  const auto* saved = std::get_if<wire::Saved>(&message.body);
  if (message.type != MessageType::kSaved || phase_ != Phase::kSaving || saved == nullptr ||
      message.from != Address::Of(ServerId{0})) {
    ++ignored_;
    return;
  }
  saved_ = *saved;
  End({kExitOk, "done"}, out);
}

bool Coordinator::IsFromRegistered(const Message& message, Outbox* out) {
  const Node* node = nodes_.Find(message.from);
  // Of the rank's former holder. It is not answered: the answer would reach the present one.
  if (node != nullptr) return message.epoch == 0 || message.epoch >= node->welcomed;
  if (message.type == MessageType::kHeartbeat && nodes_.IsRank(message.from)) {
    SendNotice(message.from, MessageType::kShutdown, Expelled(), out);
  }
  return false;
}

void Coordinator::AnswerAfterTheEnd(const Message& message, Outbox* out) const {
  if (message.type == MessageType::kHello) {
    SendNotice(message.from, MessageType::kRefuse,
               {kExitConfig, absl::StrCat("the job is over: ", ended_->text)}, out);
  } else if (message.type == MessageType::kHeartbeat && message.session == options_.session) {
    const bool known = nodes_.Find(message.from) != nullptr;
    SendNotice(message.from, MessageType::kShutdown, known ? *ended_ : Expelled(), out);
  }
}

void Coordinator::OnHello(Nanos now, const Message& message, Outbox* out) {
  const auto* hello = std::get_if<wire::Hello>(&message.body);
  if (hello == nullptr || hello->role != message.from.role ||
      (hello->role != Role::kServer && hello->role != Role::kWorker)) {
    ++ignored_;
    return;
  }
  const auto refuse = [&](Notice why) {
    SendNotice(message.from, MessageType::kRefuse, std::move(why), out);
  };
  if (hello->config_digest != options_.config_digest) {
    // What it should have been is not said: who knows it is given a rank, and the session.
    return refuse(
        {kExitConfig, absl::StrFormat("the job's configuration (digest %016x) differs from the "
                                      "scheduler's: start all with the same job file",
                                      hello->config_digest)});
  }
  const auto welcome = [&](Address place) {
    Message answer = To(message.from, MessageType::kWelcome);
    answer.body = wire::Welcome{place.index, hello->nonce};
    out->Send(std::move(answer));
  };
  if (const auto place = nodes_.PlaceOf(*hello); place.has_value()) {
    nodes_.Hear(*place, now);
    return welcome(*place);
  }
  if (hello->role == Role::kServer && phase_ != Phase::kRegistering) {
    return refuse({kExitConfig, "the job is running: a server cannot join it"});
  }
  if (phase_ >= Phase::kEvaluating) {
    return refuse({kExitConfig, "the job is ending: nobody can join it any more"});
  }
  // While the job runs, who holds the place may be dead and not yet known to be: worth a retry.
  const int32_t taken = phase_ == Phase::kRegistering ? kExitConfig : kExitPeerLost;
  const auto found = nodes_.PlaceFor(*hello, now, taken);
  if (const auto* why = std::get_if<Notice>(&found)) return refuse(*why);
  const Address place = std::get<Address>(found);
  nodes_.Add(place, {hello->nonce, hello->endpoint, epoch_, now});
  welcome(place);
  if (phase_ == Phase::kRegistering) {
    AddNews(absl::StrCat(Spoken(place), " registered"));
    if (nodes_.complete()) BeginInstalling(now, out);
    return;
  }
  AddNews(absl::StrCat(Spoken(place), " asks to join"));
  const auto before = progress_.find(WorkerId{place.index});
  if (before != progress_.end()) former_[before->first] = before->second;
  members_.Enqueue(WorkerId{place.index});
  AdmitNext(now, out);
}

void Coordinator::OnRosterAck(Nanos now, const Message& message, Outbox* out) {
  const uint32_t shards = options_.servers * options_.shards_per_server;
  if (message.from.index >= shards || message.epoch > epoch_ || message.clock < 0) {
    ++ignored_;
    return;
  }
  acks_.Record(ShardId{message.from.index}, message.epoch, message.clock);
  if (phase_ == Phase::kInstalling && acks_.AllReached(kFirstEpoch)) BeginRunning(now, out);
  AdvanceAdmission(now, out);
}

void Coordinator::OnWorkerMessage(Nanos now, const Message& message, Outbox* out) {
  const WorkerId worker{message.from.index};
  if (const auto* progress = std::get_if<wire::Progress>(&message.body)) {
    wire::Progress& all = progress_[worker] = *progress;
    if (const auto former = former_.find(worker); former != former_.end()) all.Add(former->second);
    rebalancer_.Observe(worker, *progress);
  }
  switch (message.type) {
    case MessageType::kHeartbeat:
      return ConsiderRebalance(out);
    case MessageType::kRosterAck:
      rebalancer_.Record(worker, message.epoch, message.clock);
      return EndRebalanceIfAgreed(now, out);
    case MessageType::kLeave:
      return OnLeave(now, worker, out);
    case MessageType::kDone:
      if (phase_ == Phase::kRunning && members_.MarkDone(worker)) {
        return FinishIfAllDone(now, out);
      }
      break;
    case MessageType::kEvaluated:
      if (const auto* evaluation = std::get_if<wire::Evaluation>(&message.body);
          evaluation != nullptr && evaluator_ == worker) {
        evaluation_ = *evaluation;
        return BeginSaving(now, out);
      }
      break;
    default:
      break;
  }
  ++ignored_;
}

void Coordinator::OnLeave(Nanos now, WorkerId worker, Outbox* out) {
  const Address node = Address::Of(worker);
  const auto progress = progress_.find(worker);
  const Clock clock = progress == progress_.end() ? 0 : progress->second.clock;
  AddNews(absl::StrCat(Spoken(node), " left after clock ", clock));
  SendNotice(node, MessageType::kShutdown, {kExitTerminated, "left"}, out);
  RemoveWorker(now, worker, {kExitTerminated, "all workers left"}, out);
}

// ---- Time and losses

void Coordinator::OnTimer(Nanos now, wire::TimerId timer, Outbox* out) {
  if (timer != kTick || ended_.has_value()) return;
  // What we slept through (a suspended machine) is not the others' silence: their heartbeats of
  // that time still wait in our queue.
  const Nanos overslept = now - tick_due_;
  if (overslept > options_.heartbeat_ns) nodes_.ForgivePause(overslept);
  for (const Address node : nodes_.Silent(now, options_.timeout_ns)) OnLost(now, node, out);
  if (!ended_.has_value()) CheckDeadlines(now, out);
  if (ended_.has_value()) return;
  tick_due_ = now + options_.heartbeat_ns;
  out->SetTimer(kTick, tick_due_);
}

void Coordinator::CheckDeadlines(Nanos now, Outbox* out) {
  const Nanos waited = now - wait_began_;
  const auto whole_seconds = [](Nanos t) { return absl::StrCat(t / kSecond, " s"); };
  const auto give_up = [&](std::string why) { End({kExitPeerLost, std::move(why)}, out); };
  switch (phase_) {
    case Phase::kRegistering: {
      const std::string limit = whole_seconds(options_.start_timeout_ns);
      if (waited >= options_.start_timeout_ns) {
        return give_up(absl::StrCat("not started after ", limit, ": missing ", Missing()));
      }
      if (now - waiting_told_ >= kWaitingNewsEvery) {
        waiting_told_ = now;
        AddNews(absl::StrCat("waiting for ", Missing(), " (", whole_seconds(waited), " of ", limit,
                             ")"));
      }
      return;
    }
    case Phase::kInstalling:
    case Phase::kRunning: {
      const std::optional<Admission>& admission = members_.admission();
      if (phase_ == Phase::kRunning && !admission.has_value()) return;
      if (waited < options_.start_timeout_ns) return;
      const Epoch awaited = admission.has_value() ? admission->awaited : kFirstEpoch;
      const std::vector<ShardId> behind = acks_.Behind(awaited);
      return give_up(absl::StrCat(Spoken(Address::Of(behind.front())), " has not taken roster ",
                                  awaited, " for ", whole_seconds(waited)));
    }
    case Phase::kEvaluating:
      if (waited < options_.finish_timeout_ns) return;
      return give_up(absl::StrCat(Spoken(Address::Of(*evaluator_)), " has not evaluated for ",
                                  whole_seconds(waited)));
    case Phase::kSaving:
      if (waited < options_.finish_timeout_ns) return;
      return give_up(absl::StrCat("the model is not saved after ", whole_seconds(waited)));
    case Phase::kClosing:
      return;
  }
}

void Coordinator::OnLost(Nanos now, Address node, Outbox* out) {
  const Node* entry = nodes_.Find(node);
  if (ended_.has_value() || entry == nullptr) return;
  const std::string lost = absl::StrCat(Spoken(node), " lost");
  const std::string line =
      absl::StrCat(lost, ": no heartbeat for ", Seconds(now - entry->last_heard));
  AddNews(line);
  if (node.role == Role::kWorker) {
    return RemoveWorker(now, WorkerId{node.index}, {kExitPeerLost, lost + "; none left"}, out);
  }
  nodes_.Remove(node);
  if (phase_ != Phase::kRegistering) End({kExitPeerLost, line}, out);
}

void Coordinator::RemoveWorker(Nanos now, WorkerId worker, Notice if_none_left, Outbox* out) {
  nodes_.Remove(Address::Of(worker));
  rebalancer_.Forget(worker);
  if (!members_.Remove(worker)) return FinishIfAllDone(now, out);
  if (phase_ != Phase::kSaving && !members_.HasStarted()) return End(std::move(if_none_left), out);
  PublishRoster(out);
  if (evaluator_ == worker) SendEvaluate(now, out);
  EndRebalanceIfAgreed(now, out);
  AdmitNext(now, out);
  FinishIfAllDone(now, out);
}

void Coordinator::Abort(Nanos /*now*/, int32_t code, std::string reason, Outbox* out) {
  if (!ended_.has_value()) End({code, std::move(reason)}, out);
}

// ---- The phases of a job, in their order

void Coordinator::BeginInstalling(Nanos now, Outbox* out) {
  phase_ = Phase::kInstalling;
  wait_began_ = now;
  for (const auto& [place, node] : nodes_.nodes()) {
    if (place.role == Role::kServer) {
      members_.AddServer({ServerId{place.index}, node.endpoint});
    } else {
      members_.AddOriginal(WorkerId{place.index}, kFirstEpoch);
      members_.SetEndpoint(WorkerId{place.index}, node.endpoint);
    }
  }
  AddNews(absl::StrFormat("all registered: %d servers, %d workers", options_.servers,
                          options_.workers));
  PublishRoster(out);
}

void Coordinator::BeginRunning(Nanos now, Outbox* out) {
  phase_ = Phase::kRunning;
  AddNews("started");
  for (const wire::Member& member : roster().workers) SendStart(member, out);
  AdmitNext(now, out);
}

void Coordinator::SendStart(const wire::Member& member, Outbox* out) const {
  Message start = To(Address::Of(member.worker), MessageType::kStart);
  start.clock = member.start;
  out->Send(std::move(start));
}

void Coordinator::AdmitNext(Nanos now, Outbox* out) {
  if (phase_ != Phase::kRunning || rebalancer_.changing()) return;
  if (!members_.BeginAdmission(epoch_ + 1)) return;
  const WorkerId newcomer = members_.admission()->worker;
  members_.SetEndpoint(newcomer, nodes_.nodes().at(Address::Of(newcomer)).endpoint);
  wait_began_ = now;
  PublishRoster(out);
}

void Coordinator::AdvanceAdmission(Nanos now, Outbox* out) {
  const std::optional<Admission>& admission = members_.admission();
  if (!admission.has_value() || !acks_.AllReached(admission->awaited)) return;
  if (admission->step == Admission::Step::kFreezing) {
    members_.Place(acks_.MaxFrontier(), epoch_ + 1);
    wait_began_ = now;
    return PublishRoster(out);
  }
  const wire::Member newcomer = members_.EndAdmission();
  AddNews(absl::StrCat(Spoken(Address::Of(newcomer.worker)), " joined at clock ", newcomer.start));
  SendStart(newcomer, out);
  AdmitNext(now, out);
}

// Called at each report of a worker, so it must be cheap while nothing changes.
void Coordinator::ConsiderRebalance(Outbox* out) {
  const bool admitting = members_.admission().has_value() || members_.somebody_waits();
  if (phase_ != Phase::kRunning || admitting) return;
  std::optional<Rebalancer::Proposal> proposal = rebalancer_.Propose(roster());
  if (!proposal.has_value()) return;
  rebalancer_.Begin(*std::move(proposal), epoch_ + 1);
  members_.SetShareLead(options_.rebalance.lead);
  PublishRoster(out);
}

void Coordinator::EndRebalanceIfAgreed(Nanos now, Outbox* out) {
  const std::optional<double> gain = rebalancer_.EndIfAgreed(roster(), members_.mutable_shares());
  if (!gain.has_value()) return;
  members_.SetShareLead(0);
  PublishRoster(out);
  const wire::Shares& shares = roster().shares.back();
  const auto [low, high] = std::minmax_element(shares.leaves.begin(), shares.leaves.end());
  AddNews(absl::StrFormat(
      "re-balanced: %d to %d of %d leaves a worker from clock %d, steps "
      "predicted %.0f%% shorter",
      *low, *high, options_.rebalance.leaf_count, shares.from, 100 * *gain / (1 + *gain)));
  AdmitNext(now, out);
}

void Coordinator::FinishIfAllDone(Nanos now, Outbox* out) {
  if (phase_ != Phase::kRunning || !members_.AllDone()) return;
  if (!options_.evaluate) return BeginSaving(now, out);
  phase_ = Phase::kEvaluating;
  SendEvaluate(now, out);
}

void Coordinator::SendEvaluate(Nanos now, Outbox* out) {
  wait_began_ = now;
  evaluator_ = roster().workers.front().worker;
  const Address node = Address::Of(*evaluator_);
  AddNews(absl::StrCat("all workers done; ", Spoken(node), " evaluates"));
  out->Send(To(node, MessageType::kEvaluate));
}

void Coordinator::BeginSaving(Nanos now, Outbox* out) {
  evaluator_.reset();
  if (!options_.save) return End({kExitOk, "done"}, out);
  phase_ = Phase::kSaving;
  wait_began_ = now;
  for (uint32_t k = 0; k < options_.servers * options_.shards_per_server; ++k) {
    out->Send(To(Address::Of(ShardId{k}), MessageType::kSave));
  }
}

void Coordinator::End(Notice why, Outbox* out) {
  phase_ = Phase::kClosing;
  evaluator_.reset();
  for (const auto& [place, node] : nodes_.nodes()) {
    SendNotice(place, MessageType::kShutdown, why, out);
  }
  ended_ = std::move(why);
}

// ---- Parts of the above

void Coordinator::PublishRoster(Outbox* out) {
  ++epoch_;
  const auto send = [&](Address to) {
    Message message = To(to, MessageType::kRoster);
    message.body = roster();
    out->Send(std::move(message));
  };
  for (uint32_t k = 0; k < options_.servers * options_.shards_per_server; ++k) {
    send(Address::Of(ShardId{k}));
  }
  for (const wire::ServerEntry& entry : roster().servers) send(Address::Of(entry.server));
  for (const wire::Member& member : roster().workers) send(Address::Of(member.worker));
}

Message Coordinator::To(Address to, MessageType type) const {
  Message message;
  message.type = type;
  message.from = Address::Scheduler();
  message.to = to;
  message.session = options_.session;
  message.epoch = epoch_;
  return message;
}

void Coordinator::SendNotice(Address to, MessageType type, Notice notice, Outbox* out) const {
  Message message = To(to, type);
  // Who is refused is not of the job, and does not learn its session.
  if (type == MessageType::kRefuse) message.session = 0;
  message.body = std::move(notice);
  out->Send(std::move(message));
}

void Coordinator::AddNews(std::string line) {
  if (news_.size() >= kNewsMax) news_.erase(news_.begin());
  news_.push_back(std::move(line));
}

void Coordinator::AddTo(Fingerprint* f) const {
  f->Add(phase_);
  f->Add(epoch_);
  nodes_.AddTo(f);
  members_.AddTo(f);
  acks_.AddTo(f);
  rebalancer_.AddTo(f);
  f->Add(evaluator_.has_value());
  if (evaluator_.has_value()) f->Add(*evaluator_);
  f->Add(ended_.has_value());
  if (ended_.has_value()) f->Add(ended_->code);
}

}  // namespace soapstone::scheduler
