#include "apps/node/server_node.h"

#include <glog/logging.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/loop/link_losses.h"
#include "apps/report/server_progress.h"
#include "base/exit_codes.h"
#include "base/steady_clock.h"
#include "cluster/model/model_metadata.h"

namespace soapstone::apps {
namespace {

using wire::MessageType;

constexpr size_t kAnswersMax = 65'536;
constexpr Nanos kServerPatience = kSecond;
constexpr absl::Duration kServerLinger = absl::Seconds(1);
// While a shard is behind: between two messages, if it answers none.
constexpr absl::Duration kBehindPatience = absl::Milliseconds(10);

}  // namespace

ServerNode::ServerNode(std::shared_ptr<const Job> job,
                       std::unique_ptr<transport::Transport> transport,
                       const Registration& registration, ReportSink* reports)
    : job_(std::move(job)),
      loop_(std::move(transport), job_->config.cluster().shards_per_server()),
      membership_(
          MembershipClientOptionsOf(*job_, wire::Role::kServer, registration, loop_.transport())),
      reports_(reports),
      answers_(kAnswersMax),
      shards_(job_, &answers_, [this] { loop_.Wake(); }) {
  loop_.transport().SetSelf(membership_.temporary_address());
}

int ServerNode::Run() {
  membership_.Start(loop_.Now(), &out_);
  loop_.Flush(&out_);
  while (!membership_.ended().has_value() && !failure_.has_value() && !IsToGo(loop_.Now())) {
    std::optional<wire::Message> message = Receive();
    const Nanos now = loop_.Now();
    if (message.has_value()) Dispatch(now, *std::move(message));
    for (const wire::TimerId timer : loop_.TakeDue(now)) {
      if (timer == wire::MembershipClient::kTick) membership_.OnTimer(now, HeartbeatBody(), &out_);
    }
    shards_.Look(now);
    TakeAnswers(now);
    ContinueSaving(now);
    if (!failure_.has_value()) failure_ = shards_.failure();
    ReportLostLinks(now, wire::Role::kServer, &loop_, &membership_, &out_);
    WaitForPlace(now, job_->config.cluster().scheduler(), &membership_, &loop_.transport(), &turn_);
    loop_.Flush(&out_);
    Show(status_, now, [&] { return StatusNow(now); });
  }
  return Finish();
}

// The job cannot go on without this server. Where it has checkpoints it stops with one first.
bool ServerNode::IsToGo(Nanos now) {
  if (!loop_.stop_requested()) return false;
  const bool may_stop = job_->checkpoint_every > 0 && rank_.has_value() && loop_.epoch() > 0;
  if (!may_stop || loop_.stop_now_requested() || Beside().has_value()) return true;
  if (leave_by_.has_value()) return now > *leave_by_;
  LOG(INFO) << "told to end: serving until the job has stopped with a checkpoint";
  leave_by_ = now + NanosOf(job_->config.cluster().grace_s());
  membership_.AskLeave(&out_);
  loop_.Flush(&out_);
  return false;
}

// Where a shard is behind, what comes shall wait with its senders: it is taken in no faster than
// the shard answers, and slowly in any case, for the scheduler's word is among it.
std::optional<wire::Message> ServerNode::Receive() {
  if (!shards_.behind()) return loop_.Next(kServerPatience);
  std::optional<wire::Message> answer = answers_.Take(SteadyNow() + kBehindPatience);
  if (answer.has_value()) Send(loop_.Now(), *std::move(answer));
  return loop_.Next(0);
}

void ServerNode::Dispatch(Nanos now, wire::Message message) {
  if (message.from.role == wire::Role::kScheduler) {
    membership_.OnMessage(now, message, &out_);
    if (!rank_.has_value() && membership_.rank().has_value()) OnWelcome(*membership_.rank());
  }
  if (!rank_.has_value()) return;
  // Before a shard acknowledges it: what comes of that, by another connection, may be ahead of the
  // copy that is this server's own.
  if (const auto* roster = std::get_if<wire::Roster>(&message.body)) {
    loop_.router().Follow(*roster);
    // Server 0 gathers the model; a branch of a tree talks to its root, replicas to their chain.
    const uint32_t root_servers = job_->config.cluster().servers();
    const bool to_all = job_->replicas > 1 || *rank_ >= root_servers;
    loop_.router().ConnectServers(*roster, 0, to_all ? root_servers : 1);
    roster_ = *roster;
    if (!roster->chains.empty()) return shards_.PutToAll(now, message);
  }
  if (message.type == MessageType::kRecord || message.type == MessageType::kRecorded) {
    return shards_.Put(now, std::move(message));
  }
  if (message.to.role == wire::Role::kShard) return shards_.Put(now, std::move(message));
  if (message.type == MessageType::kSlices) return OnSlices(message);
  if (message.type == MessageType::kSave && message.from == wire::Address::Scheduler()) {
    BeginSaving();
  }
}

void ServerNode::OnWelcome(uint32_t rank) {
  rank_ = rank;
  const wire::Address self = wire::Address::Of(ServerId{rank});
  loop_.transport().SetSelf(self);
  loop_.transport().SetSession(membership_.session());
  loop_.router().SetSelf(self);
  shards_.Start(rank, membership_.session(), pin_shards_);
  const uint32_t count = job_->config.cluster().shards_per_server();
  LOG(INFO) << "server " << rank << " of " << ServerCount(job_->config, job_->specs.policy) << ", "
            << loop_.transport().endpoint() << ", shards " << rank * count << " to "
            << rank * count + count - 1;
  const std::string& model = job_->config.output().model_path();
  if (rank != 0 || model.empty()) return;
  // Known now, and not when all has been trained.
  const absl::Status writable = models::CheckWritable(model);
  if (writable.ok()) return;
  failure_ = {kExitConfig, absl::StrCat("output.model_path: ", writable.message())};
}

void ServerNode::Send(Nanos now, wire::Message message) {
  // Of a checkpoint: by this server's roster, which may be a former one.
  const bool unsaid = message.to == wire::Address::Scheduler() && message.epoch == 0;
  if (unsaid && job_->replicas > 1) message.epoch = loop_.epoch();
  const wire::Address self = wire::Address::Of(ServerId{*rank_});
  if (message.to == self && message.type == MessageType::kSlices) {
    OnSlices(message);
  } else if (loop_.router().NodeOf(message.to) == self) {
    shards_.Put(now, std::move(message));
  } else {
    out_.Send(std::move(message));
  }
}

void ServerNode::TakeAnswers(Nanos now) {
  while (std::optional<wire::Message> answer = answers_.Take(SteadyTime::InfinitePast())) {
    Send(now, *std::move(answer));
  }
}

wire::Body ServerNode::HeartbeatBody() {
  std::optional<wire::SlowWork> work = shards_.work();
  if (saver_.has_value()) work = saver_->work();
  if (work.has_value()) return *work;
  told_reads_ = !told_reads_;
  if (!told_reads_) return {};
  std::vector<wire::ShardReads> reads;
  for (ShardStatus& shard : shards_.AskStatus()) reads.push_back(std::move(shard.reads));
  if (reads.empty()) return {};
  return ProgressOf(std::move(reads));
}

NodeStatus ServerNode::StatusNow(Nanos now) {
  const int64_t rank = rank_.has_value() ? *rank_ : -1;
  NodeStatus status = StatusOf(*job_, loop_, "server", rank, now, began_);
  status.shards = shards_.AskStatus();
  const bool rostered = loop_.epoch() > 0;
  const bool making = rank_.has_value() && shards_.work().has_value();
  status.job.ready = rostered && !making;
  status.job.phase = saver_.has_value() ? "saving"
                     : status.job.ready ? "running"
                     : making           ? "installing"
                                        : "registering";
  if (!rank_.has_value()) {
    status.job.waits = "waiting for a rank";
  } else if (!status.job.ready) {
    status.job.waits = making ? "making its parameters" : "waiting for the other nodes to register";
  }
  return status;
}

void ServerNode::BeginSaving() {
  const bool again = job_->replicas > 1;  // as a server is lost that had shards
  if ((*rank_ != 0 && !again) || (saver_.has_value() && !again)) return;
  saver_.reset();
  // Others have had nothing to say to server 0's shards, or may not have reached them yet.
  loop_.router().ConnectServers(roster_, 0, job_->config.cluster().servers());
  saver_.emplace(ModelSaverOptions{.layout = job_->layout,
                                   .path = job_->config.output().model_path(),
                                   .metadata = ModelMetadataOf(*job_),
                                   .wake = [this] { loop_.Wake(); },
                                   .self = ServerId{*rank_}},
                 &saving_);
}

void ServerNode::OnSlices(const wire::Message& message) {
  if (!saver_.has_value()) return;
  const absl::Status taken = saver_->OnSlices(message, &saving_);
  LOG_IF(ERROR, !taken.ok()) << "slices not taken: " << taken.message();
  if (!taken.ok() || saver_->IsAsWritten(message)) return;
  const auto text = [&] {
    return absl::StrCat(message.from.ToString(), " gives the model's file other values of bucket ",
                        Index(wire::As<wire::Slices>(message).bucket), " than it has written");
  };
  saved_.Add("content", WorkerId{0}, job_->total_clocks, text);
  failure_ = {kExitBroken, absl::StrCat(job_->specs.policy.spec, " broke its guarantee: ", text())};
}

void ServerNode::ContinueSaving(Nanos now) {
  // What is known to be wrong is not told to be saved, though it may have been written by now.
  if (!saver_.has_value() || failure_.has_value()) return;
  std::optional<absl::StatusOr<wire::Saved>> saved = saver_->Advance(&saving_);
  wire::Outbox asked = std::exchange(saving_, {});
  for (wire::Message& message : asked.messages) {
    if (job_->replicas > 1) message.epoch = loop_.epoch();
    Send(now, std::move(message));
  }
  if (!saved.has_value()) return;
  if (!saved->ok()) {
    failure_ = {kExitConfig, std::string(saved->status().message())};
    return;
  }
  wire::Message message;
  message.type = MessageType::kSaved;
  message.from = wire::Address::Of(ServerId{*rank_});
  message.to = wire::Address::Scheduler();
  message.body = **std::move(saved);
  out_.Send(std::move(message));
}

void ServerNode::EndWith(const wire::Notice& why) {
  {
    const MutexLock lock(&mutex_);
    ends_with_ = why;
  }
  loop_.RequestStop(why.code);
}

std::optional<wire::Notice> ServerNode::Beside() {
  const MutexLock lock(&mutex_);
  return ends_with_;
}

int ServerNode::Finish() {
  wire::Notice end{loop_.stop_code(), "stopped by a signal"};
  const std::optional<wire::Notice> beside = Beside();
  if (beside.has_value()) end = *beside;
  const bool told = membership_.ended().has_value();
  if (told) end = *membership_.ended();
  if (leave_by_.has_value() && end.code == kExitStopped) end.code = loop_.stop_code();
  if (failure_.has_value()) end = *failure_;
  if (!told && rank_.has_value()) SayLastWord(end);
  loop_.Flush(&out_);
  if (!beside.has_value()) LogEnd(end);
  answers_.Close();
  saver_.reset();
  shards_.Join();
  loop_.transport().Close(kServerLinger);
  // Where the job goes on without it, who has its shards tells all of them.
  const bool alone = !told || end.text == "left" || absl::StartsWith(end.text, "expelled");
  if (job_->replicas < 2 || !alone) ReportEnd();
  return end.code;
}

// The job cannot go on without this server.
void ServerNode::SayLastWord(const wire::Notice& end) {
  wire::Message message;
  message.from = wire::Address::Of(ServerId{*rank_});
  message.to = wire::Address::Scheduler();
  message.type = MessageType::kBroken;
  message.body = end;
  out_.Send(std::move(message));
}

void ServerNode::ReportEnd() {
  if (!rank_.has_value()) return;
  NodeReport report = ReportOf(absl::StrCat("server-", *rank_), loop_);
  shards_.AddTo(&report);
  AddViolations(saved_, report.name, &report);
  shards_.WriteCurve();
  if (reports_ != nullptr) reports_->Take(report);
}

}  // namespace soapstone::apps
