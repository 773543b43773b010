#include "scheduler/coordinator.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/exit_codes.h"
#include "scheduler/spoken.h"
#include "wire/membership/chains.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Notice;
using wire::Outbox;
using wire::Role;

constexpr Nanos kWaitingNewsEvery = 5 * kSecond;
constexpr Epoch kFirstEpoch = 1;
// What a process has sent may lie so long in the queues of both kernels.
constexpr Nanos kUnderWayMin = kSecond / 2;
constexpr size_t kWaitingMax = 1024;  // of more the last learn of the end by their own timeout

Notice Expelled() { return {kExitPeerLost, "expelled: was silent for too long"}; }

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      messages_(options_.session, options_.places().shards()),
      entrance_(
          {.config_digest = options_.config_digest, .one_arithmetic = options_.one_arithmetic}),
      nodes_(options_.servers, options_.workers, std::max(options_.heartbeat_ns, kUnderWayMin)),
      members_(options_.workers, options_.shards_per_server,
               options_.team.has_value() ? options_.team->seats : 1),
      acks_(options_.places().shards()),
      rebalancer_(options_.rebalance),
      reports_(options_.workers, options_.places()) {}

void Coordinator::Start(Nanos now, Outbox* out) {
  wait_began_ = now;
  news_.BeginWaiting(now);
  tick_due_ = now + options_.heartbeat_ns;
  out->SetTimer(kTick, tick_due_);
}

// ---- Messages

void Coordinator::OnMessage(Nanos now, const Message& message, Outbox* out) {
  if (ended_.has_value()) return AnswerAfterTheEnd(message, out);
  ForgivePause(now);
  if (message.type == MessageType::kHello) return OnHello(now, message, out);
  // Session 0 passes: actors do not know the session, where no shell stamps it (simulation).
  if (message.session != 0 && message.session != options_.session) {
    ++ignored_;
    return;
  }
  const bool of_shard = message.from.role == Role::kShard;
  if (message.type == MessageType::kRosterAck && of_shard) return OnRosterAck(now, message, out);
  if (message.type == MessageType::kNotFinite && of_shard) return OnNotFinite(message, out);
  if (!IsFromRegistered(message, out)) {
    ++ignored_;
    return;
  }
  nodes_.Hear(message.from, now);
  if (message.type == MessageType::kHeartbeat) {
    out->Send(messages_.To(message.from, MessageType::kHeartbeatAck));
    BeginIfComplete(now, out);
  }
  if (const auto* lost = std::get_if<wire::LostLink>(&message.body)) {
    return OnLostLink(now, message, *lost, out);
  }
  if (message.from.role == Role::kWorker) return OnWorkerMessage(now, message, out);
  if (message.type == MessageType::kHeartbeat) return OnServerHeartbeat(now, message);
  const auto* saved = std::get_if<wire::Saved>(&message.body);
  if (message.type != MessageType::kSaved || phase_ != Phase::kSaving || saved == nullptr ||
      message.from != Saver()) {
    ++ignored_;
    return;
  }
  saved_ = *saved;
  EndWell(out);
}

void Coordinator::OnServerHeartbeat(Nanos now, const Message& message) {
  const bool waits = phase_ == Phase::kInstalling || phase_ == Phase::kSaving;
  const auto* work = std::get_if<wire::SlowWork>(&message.body);
  if (progress_.RecordWork(message.from, work) && waits) wait_began_ = now;
  const auto* reads = std::get_if<wire::ServerProgress>(&message.body);
  if (reads != nullptr && !reports_.Record(now, ServerId{message.from.index}, *reads)) ++ignored_;
}

void Coordinator::TellSlowWork(Nanos now) {
  std::string line = progress_.WorkText(phase_ == Phase::kSaving);
  if (!line.empty()) news_.AddWaiting(now, kWaitingNewsEvery, std::move(line));
}

bool Coordinator::IsFromRegistered(const Message& message, Outbox* out) {
  const Node* node = nodes_.Find(message.from);
  // Of the rank's former holder. It is not answered: the answer would reach the present one.
  if (node != nullptr) return message.epoch == 0 || message.epoch >= node->welcomed;
  if (message.type == MessageType::kHeartbeat && nodes_.IsRank(message.from)) {
    out->Send(messages_.Notice(message.from, MessageType::kShutdown, Expelled()));
  }
  return false;
}

void Coordinator::AnswerAfterTheEnd(const Message& message, Outbox* out) const {
  if (const auto* hello = std::get_if<wire::Hello>(&message.body)) {
    const bool same_job = hello->config_digest == options_.config_digest;
    const Entrance::Out over = Entrance::AfterTheEnd(same_job, *ended_);
    out->Send(messages_.Notice(message.from, over.type, over.why));
  } else if (message.type == MessageType::kHeartbeat && message.session == options_.session) {
    const bool known = nodes_.Find(message.from) != nullptr;
    out->Send(messages_.Notice(message.from, MessageType::kShutdown, known ? *ended_ : Expelled()));
  }
}

void Coordinator::OnHello(Nanos now, const Message& message, Outbox* out) {
  const auto* hello = std::get_if<wire::Hello>(&message.body);
  if (hello == nullptr || hello->role != message.from.role ||
      (hello->role != Role::kServer && hello->role != Role::kWorker)) {
    ++ignored_;
    return;
  }
  auto stage = phase_ >= Phase::kEvaluating ? Entrance::Stage::kEnding : Entrance::Stage::kRunning;
  if (phase_ == Phase::kRegistering) stage = Entrance::Stage::kRegistering;
  const Entrance::Verdict verdict = entrance_.Judge(now, *hello, &nodes_, stage);
  if (const auto* is_out = std::get_if<Entrance::Out>(&verdict)) {
    const bool waits = is_out->type == MessageType::kWait;
    if (waits) TakeWaiting(now, message.from);
    if (!waits) news_.AddRefused(now, hello->nonce, Entrance::Told(*hello, is_out->why));
    return out->Send(messages_.Notice(message.from, is_out->type, is_out->why));
  }
  const auto welcome = [&](Address place) {
    out->Send(messages_.Welcome(message.from, {place.index, hello->nonce}));
  };
  if (const auto* again = std::get_if<Entrance::Again>(&verdict)) {
    nodes_.Hear(again->place, now);
    welcome(again->place);
    return BeginIfComplete(now, out);
  }
  const Address place = std::get<Address>(verdict);
  waiting_.erase(message.from);
  // Up to the present roster its rank's former holder may speak.
  nodes_.Add(place, *hello, messages_.epoch() + 1, now);
  welcome(place);
  if (phase_ == Phase::kRegistering) {
    news_.Add(absl::StrCat(Spoken(place), " registered"));
    return BeginIfComplete(now, out);
  }
  news_.Add(absl::StrCat(Spoken(place), " asks to join"));
  progress_.Succeed(WorkerId{place.index});
  members_.Enqueue(nodes_.EntryOf(WorkerId{place.index}));
  AdmitNext(now, out);
}

// It asks once a heartbeat; of who has stopped nobody is told.
void Coordinator::TakeWaiting(Nanos now, Address node) {
  std::erase_if(waiting_, [&](const auto& w) { return now - w.second > options_.timeout_ns; });
  if (waiting_.size() < kWaitingMax || waiting_.contains(node)) waiting_[node] = now;
}

void Coordinator::OnRosterAck(Nanos now, const Message& message, Outbox* out) {
  if (message.from.index >= options_.places().shards() || message.epoch > messages_.epoch() ||
      message.clock < 0) {
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
    progress_.Record(now, worker, *progress);
    rebalancer_.Observe(worker, *progress);
  }
  switch (message.type) {
    case MessageType::kHeartbeat:
      return ConsiderRebalance(now, out);
    case MessageType::kRosterAck:
      rebalancer_.Record(worker, message.epoch, message.clock);
      return EndRebalanceIfAgreed(now, out);
    case MessageType::kLeave:
      return OnLeave(now, worker, out);
    case MessageType::kNotFinite:
      return OnNotFinite(message, out);
    case MessageType::kDone:
      if (phase_ == Phase::kRunning && members_.MarkDone(worker)) {
        return FinishIfAllDone(now, out);
      }
      break;
    case MessageType::kEvaluated:
      return OnEvaluated(now, worker, message, out);
    default:
      break;
  }
  ++ignored_;
}

// Of a team each seat tells what it has computed of the loss.
void Coordinator::OnEvaluated(Nanos now, WorkerId worker, const Message& message, Outbox* out) {
  const auto* evaluation = std::get_if<wire::Evaluation>(&message.body);
  if (evaluation == nullptr || evaluators_.erase(worker) == 0) {
    ++ignored_;
    return;
  }
  if (!evaluation_.has_value()) evaluation_.emplace();
  evaluation_->samples += evaluation->samples;
  evaluation_->correct += evaluation->correct;
  evaluation_->loss_sum += evaluation->loss_sum;
  if (evaluators_.empty()) BeginSaving(now, out);
}

void Coordinator::OnLeave(Nanos now, WorkerId worker, Outbox* out) {
  const Address node = Address::Of(worker);
  news_.Add(absl::StrCat(Spoken(node), " left after clock ", progress_.ClockOf(worker)));
  out->Send(messages_.Notice(node, MessageType::kShutdown, {kExitTerminated, "left"}));
  RemoveWorker(now, worker, {kExitTerminated, "all workers left"}, out);
}

// The same job would do the same again: nobody is to try it.
void Coordinator::OnNotFinite(const Message& message, Outbox* out) {
  const auto* what = std::get_if<wire::NotFinite>(&message.body);
  if (what == nullptr) {
    ++ignored_;
    return;
  }
  std::string line = Divergence(message.clock, *what);
  if (options_.on_divergence) {
    absl::StrAppend(&line, "; ", options_.on_divergence(message.clock));
  }
  End({kExitNotFinite, std::move(line)}, out);
}

// ---- Time and losses

void Coordinator::OnTimer(Nanos now, wire::TimerId timer, Outbox* out) {
  if (ended_.has_value()) return;
  if (timer == kSettle) {
    SettleLinks(now, out);
    return AwaitSettling(now, out);
  }
  if (timer != kTick) return;
  ForgivePause(now);
  for (const Address node : nodes_.Silent(now, options_.timeout_ns)) {
    OnLost(now, node, kLastEpoch, out);
  }
  if (!ended_.has_value()) SettleLinks(now, out);
  if (!ended_.has_value()) CheckDeadlines(now, out);
  if (ended_.has_value()) return;
  tick_due_ = now + options_.heartbeat_ns;
  out->SetTimer(kTick, tick_due_);
}

// What we slept through (a suspended machine) is not the others' silence: their heartbeats of that
// time still wait in our queue. Before the first of them is looked at.
void Coordinator::ForgivePause(Nanos now) {
  const Nanos overslept = now - tick_due_;
  if (overslept <= options_.heartbeat_ns) return;
  nodes_.ForgivePause(now, overslept);
  progress_.ForgivePause(overslept);
  tick_due_ = now;
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
      return news_.AddWaiting(
          now, kWaitingNewsEvery,
          absl::StrCat("waiting for ", Missing(), " (", whole_seconds(waited), " of ", limit, ")"));
    }
    case Phase::kInstalling:
    case Phase::kRunning: {
      if (phase_ == Phase::kInstalling) TellSlowWork(now);
      const std::optional<Admission>& admission = members_.admission();
      if (phase_ == Phase::kRunning && !admission.has_value()) {
        CheckRebalance(now, out);
        if (!ended_.has_value()) CheckStandstill(now, out);
        return;
      }
      if (waited < options_.start_timeout_ns) return;
      const Epoch awaited = admission.has_value() ? admission->awaited : kFirstEpoch;
      const std::vector<ShardId> behind = acks_.Behind(awaited);
      return give_up(absl::StrCat(Spoken(Address::Of(behind.front())), " has not taken roster ",
                                  awaited, " for ", whole_seconds(waited)));
    }
    case Phase::kEvaluating:
      if (waited < options_.finish_timeout_ns) return;
      return give_up(absl::StrCat(Spoken(Address::Of(*evaluators_.begin())),
                                  " has not evaluated for ", whole_seconds(waited)));
    case Phase::kSaving:
      TellSlowWork(now);
      if (waited < options_.finish_timeout_ns) return;
      return give_up(absl::StrCat("the model is not saved after ", whole_seconds(waited)));
    case Phase::kClosing:
      return;
  }
}

void Coordinator::CheckStandstill(Nanos now, Outbox* out) {
  const Nanos still = progress_.Still(now);
  if (still < options_.timeout_ns) return;
  const std::string waits = progress_.AllWait(members_);
  if (waits.empty()) return;
  const std::string line =
      absl::StrCat("nothing has moved for ", still / kSecond, " s, and all nodes answer: ", waits);
  if (still >= options_.finish_timeout_ns) return End({kExitPeerLost, line}, out);
  news_.AddWaiting(now, options_.timeout_ns, line);
}

void Coordinator::OnLost(Nanos now, Address node, Epoch heard, Outbox* out, std::string_view why) {
  const Node* entry = nodes_.Find(node);
  if (ended_.has_value() || entry == nullptr || heard < entry->welcomed) return;
  const bool beside = options_.beside_workers && node.role == Role::kServer;
  const std::string where =
      beside ? absl::StrCat(", in the process of worker ", node.index, ",") : "";
  const std::string lost = absl::StrCat(Spoken(node), where, " lost");
  const Nanos silent = now - entry->last_heard;
  std::string line = absl::StrCat(lost, ": ", std::string(why));
  if (why.empty()) {
    line = silent < options_.timeout_ns
               ? absl::StrCat(lost, ": its link to the scheduler cannot be made again")
               : absl::StrCat(lost, ": no heartbeat for ", Seconds(silent));
  }
  news_.Add(line);
  if (node.role == Role::kWorker) {
    RemoveWorker(now, WorkerId{node.index}, {kExitPeerLost, lost + "; none left"}, out);
  } else {
    nodes_.Remove(node);
    if (phase_ != Phase::kRegistering) {
      RemoveServer(now, ServerId{node.index}, {kExitPeerLost, line}, out);
    }
  }
  // It is told when it speaks again, if somebody is there then.
  if (ended_.has_value()) out->Send(messages_.Notice(node, MessageType::kShutdown, Expelled()));
}

void Coordinator::RemoveWorker(Nanos now, WorkerId worker, Notice if_none_left, Outbox* out) {
  const bool of_team =
      options_.team.has_value() && phase_ != Phase::kSaving && members_.IsMember(worker);
  nodes_.Remove(Address::Of(worker));
  broken_links_.Forget(Address::Of(worker));
  rebalancer_.Forget(worker);
  if (!members_.Remove(worker)) return FinishIfAllDone(now, out);
  if (of_team) {
    std::optional<Notice> why = WhyNotWithoutTeamOf(worker, if_none_left);
    if (why.has_value()) return End(*std::move(why), out);
    DropTeamOf(worker, out);
  }
  if (phase_ != Phase::kSaving && !members_.HasStarted()) return End(std::move(if_none_left), out);
  messages_.Publish(roster(), out);
  const bool evaluator_gone = std::any_of(evaluators_.begin(), evaluators_.end(), [&](WorkerId w) {
    return wire::FindMember(roster(), w) == nullptr;
  });
  if (evaluator_gone) SendEvaluate(now, out);
  EndRebalanceIfAgreed(now, out);
  AdmitNext(now, out);
  FinishIfAllDone(now, out);
}

// ---- The phases of a job, in their order

void Coordinator::BeginInstalling(Nanos now, Outbox* out) {
  phase_ = Phase::kInstalling;
  wait_began_ = now;
  for (const auto& [place, node] : nodes_.nodes()) {
    if (place.role == Role::kServer) {
      members_.AddServer({ServerId{place.index}, node.endpoint, node.key});
    } else {
      wire::Member member = nodes_.EntryOf(WorkerId{place.index});
      member.start = options_.first_clock;
      members_.AddOriginal(std::move(member), kFirstEpoch);
    }
  }
  members_.SetChains(wire::FirstChains(options_.places(), kFirstEpoch));
  news_.Add(absl::StrCat("all registered: ", Counted(options_.servers, "server"), ", ",
                         Counted(options_.workers, "worker")));
  if (std::string line = nodes_.OutOfReach(); !line.empty()) news_.Add(std::move(line));
  messages_.Publish(roster(), out);
}

void Coordinator::BeginRunning(Nanos now, Outbox* out) {
  phase_ = Phase::kRunning;
  progress_.Begin(now);
  news_.Add("started");
  for (const wire::Member& member : roster().workers) out->Send(messages_.Start(member));
  AdmitNext(now, out);
}

void Coordinator::AdmitNext(Nanos now, Outbox* out) {
  if (phase_ != Phase::kRunning || rebalancer_.changing()) return;
  if (!members_.BeginAdmission(messages_.epoch() + 1)) return;
  wait_began_ = now;
  messages_.Publish(roster(), out);
}

void Coordinator::AdvanceAdmission(Nanos now, Outbox* out) {
  const std::optional<Admission>& admission = members_.admission();
  if (!admission.has_value() || !acks_.AllReached(admission->awaited)) return;
  if (admission->step == Admission::Step::kFreezing) {
    members_.Place(acks_.MaxFrontier(), messages_.epoch() + 1);
    wait_began_ = now;
    return messages_.Publish(roster(), out);
  }
  const std::vector<wire::Member> newcomers = members_.EndAdmission();
  news_.Add(absl::StrCat(SpokenNewcomers(newcomers), " joined at clock ", newcomers[0].start));
  for (const wire::Member& newcomer : newcomers) out->Send(messages_.Start(newcomer));
  AdmitNext(now, out);
}

void Coordinator::FinishIfAllDone(Nanos now, Outbox* out) {
  if (phase_ != Phase::kRunning || !members_.AllDone()) return;
  if (!options_.evaluate) return BeginSaving(now, out);
  phase_ = Phase::kEvaluating;
  SendEvaluate(now, out);
}

void Coordinator::BeginSaving(Nanos now, Outbox* out) {
  evaluators_.clear();
  if (!options_.save) return EndWell(out);
  phase_ = Phase::kSaving;
  wait_began_ = now;
  progress_.ForgetWork();
  out->Send(messages_.To(Saver(), MessageType::kSave));
}

void Coordinator::EndWell(Outbox* out) {
  if (!evaluation_.has_value() || std::isfinite(evaluation_->loss_sum)) {
    return End({kExitOk, "done"}, out);
  }
  End({kExitNotFinite,
       "diverged: the loss of the trained model on the held-out samples is not finite"},
      out);
}

void Coordinator::End(Notice why, Outbox* out) {
  phase_ = Phase::kClosing;
  evaluators_.clear();
  for (const auto& [place, node] : nodes_.nodes()) {
    out->Send(messages_.Notice(place, MessageType::kShutdown, why));
  }
  const Entrance::Out over = Entrance::AfterTheEnd(true, why);
  for (const auto& [node, asked] : waiting_) {
    out->Send(messages_.Notice(node, over.type, over.why));
  }
  ended_ = std::move(why);
}

void Coordinator::AddTimesTo(Fingerprint* f) const {
  nodes_.AddTimesTo(f);
  f->Add(tick_due_);
  f->Add(wait_began_);
}

void Coordinator::AddTo(Fingerprint* f) const {
  f->Add(phase_);
  f->Add(messages_.epoch());
  entrance_.AddTo(f);
  nodes_.AddTo(f);
  members_.AddTo(f);
  acks_.AddTo(f);
  rebalancer_.AddTo(f);
  broken_links_.AddTo(f);
  f->Add(waiting_.size());
  f->Add(evaluators_.size());
  for (const WorkerId worker : evaluators_) f->Add(worker);
  f->Add(ended_.has_value());
  if (ended_.has_value()) f->Add(ended_->code);
}

}  // namespace soapstone::scheduler
