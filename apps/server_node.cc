#include "apps/server_node.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/cpu_placement.h"
#include "apps/curve_parts.h"
#include "base/exit_codes.h"
#include "models/safetensors_writer.h"

namespace soapstone::apps {
namespace {

using wire::MessageType;

constexpr size_t kAnswersMax = 65'536;
constexpr Nanos kServerPatience = kSecond;
constexpr absl::Duration kServerLinger = absl::Seconds(1);

void AddLedger(const server::Shard& shard, NodeReport* report) {
  const std::vector<server::Ledger::Row>& rows = shard.ledger().rows();
  report->ledger.reserve(report->ledger.size() + rows.size());
  for (size_t worker = 0; worker < rows.size(); ++worker) {
    report->ledger.push_back({.worker = static_cast<uint32_t>(worker),
                              .shard = Index(shard.id()),
                              .read_lags = rows[worker].read_lags,
                              .stalenesses = rows[worker].stalenesses,
                              .violations = rows[worker].violations});
  }
}

// Of a table "name.keys" and "name.rows".
std::vector<models::NamedTensor> TensorsOf(const wire::Layout& layout,
                                           const server::ModelGatherer& gatherer) {
  std::vector<models::NamedTensor> tensors;
  for (size_t t = 0; t < layout.tables().size(); ++t) {
    const std::vector<uint64_t>& keys = gatherer.tables()[t].keys;
    tensors.push_back({.name = absl::StrCat(layout.tables()[t].name, ".keys"),
                       .shape = {static_cast<int64_t>(keys.size())},
                       .keys = keys});
  }
  for (size_t i = 0; i < gatherer.tensors().size(); ++i) {
    const ParamSpec& param = layout.params()[i];
    tensors.push_back({param.name, param.shape, gatherer.tensors()[i]});
  }
  for (size_t t = 0; t < layout.tables().size(); ++t) {
    const TableSpec& table = layout.tables()[t];
    const SparseRows& rows = gatherer.tables()[t];
    tensors.push_back({absl::StrCat(table.name, ".rows"),
                       {static_cast<int64_t>(rows.keys.size()), table.dim},
                       rows.rows});
  }
  return tensors;
}

}  // namespace

ServerNode::ServerNode(std::shared_ptr<const Job> job,
                       std::unique_ptr<transport::Transport> transport, Enlisting enlisting,
                       ReportSink* reports)
    : job_(std::move(job)),
      loop_(std::move(transport), job_->config.cluster().shards_per_server()),
      enrolment_(
          EnrolmentOptionsOf(*job_, wire::Role::kServer, enlisting, loop_.transport().endpoint())),
      reports_(reports),
      answers_(kAnswersMax) {
  loop_.transport().SetSelf(enrolment_.temporary_address());
}

int ServerNode::Run() {
  enrolment_.Start(loop_.Now(), &out_);
  loop_.Flush(&out_);
  while (!enrolment_.ended().has_value() && !failure_.has_value() && !loop_.stop_requested()) {
    std::optional<wire::Message> message = loop_.Next(kServerPatience);
    const Nanos now = loop_.Now();
    if (message.has_value()) Dispatch(now, *std::move(message));
    for (const wire::TimerId timer : loop_.TakeDue(now)) {
      if (timer == wire::Enrolment::kTick) enrolment_.OnTimer(now, std::nullopt, &out_);
    }
    TakeAnswers(now);
    WatchGuarantee();
    loop_.Flush(&out_);
  }
  return Finish();
}

void ServerNode::Dispatch(Nanos now, wire::Message message) {
  if (message.from.role == wire::Role::kScheduler) {
    enrolment_.OnMessage(now, message, &out_);
    if (!rank_.has_value() && enrolment_.rank().has_value()) OnWelcome(*enrolment_.rank());
  }
  if (!rank_.has_value()) return;
  // Before a shard acknowledges it: what comes of that, by another connection, may be ahead of the
  // copy that is this server's own.
  if (const auto* roster = std::get_if<wire::Roster>(&message.body)) {
    // Server 0 gathers the model; a branch of a tree talks to its root.
    const uint32_t root_servers = job_->config.cluster().servers();
    loop_.mailer().ConnectServers(*roster, 0, *rank_ < root_servers ? 1 : root_servers);
  }
  if (message.to.role == wire::Role::kShard) return ToShard(now, std::move(message));
  if (message.type == MessageType::kSlices) return OnSlices(message);
}

void ServerNode::OnWelcome(uint32_t rank) {
  rank_ = rank;
  const wire::Address self = wire::Address::Of(ServerId{rank});
  loop_.transport().SetSelf(self);
  loop_.transport().SetSession(enrolment_.session());
  loop_.mailer().SetSelf(self);
  const uint32_t count = job_->config.cluster().shards_per_server();
  for (uint32_t i = 0; i < count; ++i) {
    const ShardId id{rank * count + i};
    std::optional<server::SnapshotTaker> taker;
    const bool of_model = Index(id) < job_->layout->shard_count();
    if (of_model && !job_->config.output().curve_path().empty()) taker.emplace(job_->curve_step);
    std::optional<int> cpu;
    if (pin_shards_ && count > 1) cpu = CpuInTurn(i);
    shards_.push_back(std::make_unique<ShardThread>(
        MakeShard(id), &answers_, [this] { loop_.Wake(); },
        ShardThreadOptions{.strict = job_->config.strict(),
                           .taker = taker,
                           .recorder = OpenRecorder(id),
                           .own_thread = count > 1,
                           .cpu = cpu}));
  }
  // The only shard is served by this thread.
  if (pin_shards_ && count == 1) StayOn(CpuInTurn(0));
  if (rank == 0) gatherer_.emplace(job_->layout);
  LOG(INFO) << "server " << rank << " of " << ServerCount(job_->config, job_->specs.policy) << ", "
            << loop_.transport().endpoint() << ", shards " << rank * count << " to "
            << rank * count + count - 1;
}

std::unique_ptr<server::Shard> ServerNode::MakeShard(ShardId id) const {
  const server::TensorStoreOptions store{.layout = job_->layout,
                                         .shard = id,
                                         .optimizer = job_->specs.optimizer,
                                         .schedule = job_->specs.schedule,
                                         .total_clocks = job_->total_clocks,
                                         .seed = job_->config.training().seed(),
                                         .given = job_->given,
                                         .rule = job_->specs.policy.store,
                                         .checks = job_->config.strict(),
                                         .fault = job_->store_fault,
                                         .fixed_tree = job_->specs.policy.fixed_tree};
  server::ShardOptions options{.id = id,
                               .layout = job_->layout,
                               .policy = job_->specs.policy,
                               .leaf_count = job_->config.training().micro_batches(),
                               .final_clock = job_->specs.policy.Rounds(job_->total_clocks)};
  return std::make_unique<server::Shard>(std::move(options), server::Store(store));
}

std::unique_ptr<Recorder> ServerNode::OpenRecorder(ShardId id) {
  absl::StatusOr<std::unique_ptr<Recorder>> recorder =
      Recorder::Open(*job_, wire::Address::Of(id), enrolment_.session());
  if (recorder.ok()) return *std::move(recorder);
  failure_ = {kExitConfig, std::string(recorder.status().message())};
  return nullptr;
}

void ServerNode::ToShard(Nanos now, wire::Message message) {
  const uint32_t count = job_->config.cluster().shards_per_server();
  const uint32_t index = message.to.index - *rank_ * count;  // wraps below the first
  if (index >= shards_.size()) {
    LOG_EVERY_N(WARNING, 1000) << "not a shard of this server: " << wire::ToString(message);
    return;
  }
  if (shards_[index]->Put(now, std::move(message)) || shards_[index]->broken()) return;
  failure_ = {kExitInternal, absl::StrCat("shard ", *rank_ * count + index, " is stuck")};
}

void ServerNode::TakeAnswers(Nanos now) {
  while (std::optional<wire::Message> answer = answers_.Take(absl::InfinitePast())) {
    const bool for_me = answer->to == wire::Address::Of(ServerId{*rank_});
    if (for_me && answer->type == MessageType::kSlices) {
      OnSlices(*answer);
    } else if (loop_.mailer().NodeOf(answer->to) == wire::Address::Of(ServerId{*rank_})) {
      ToShard(now, *std::move(answer));
    } else {
      out_.Send(*std::move(answer));
    }
  }
}

void ServerNode::WatchGuarantee() {
  for (const std::unique_ptr<ShardThread>& thread : shards_) {
    if (!thread->broken() || failure_.has_value()) continue;
    const server::Ledger& ledger = thread->Join().ledger();
    failure_ = {kExitBroken, absl::StrCat(job_->specs.policy.spec, " broke its guarantee: ",
                                          ledger.first_violation()->ToString())};
  }
}

void ServerNode::OnSlices(const wire::Message& message) {
  if (!gatherer_.has_value()) return;
  const absl::StatusOr<bool> complete = gatherer_->OnSlices(message);
  if (!complete.ok()) {
    LOG(ERROR) << "slices not taken: " << complete.status().message();
    return;
  }
  if (!*complete) return;
  wire::Saved saved{.path = job_->config.output().model_path(), .sha256 = gatherer_->Sha256Hex()};
  if (!saved.path.empty()) {
    std::vector<std::pair<std::string, std::string>> metadata = {
        {"model", job_->config.model()},
        {"policy", job_->specs.policy.spec},
        {"sha256", saved.sha256}};
    if (job_->tables != nullptr && !job_->tables->data().vocabulary.empty()) {
      metadata.emplace_back("vocabulary", absl::StrJoin(job_->tables->data().vocabulary, "\n"));
    }
    const absl::Status written =
        models::WriteSafetensors(saved.path, TensorsOf(*job_->layout, *gatherer_), metadata);
    if (!written.ok()) {
      failure_ = {kExitConfig, std::string(written.message())};
      return;
    }
  }
  wire::Message message_saved;
  message_saved.type = MessageType::kSaved;
  message_saved.from = wire::Address::Of(ServerId{0});
  message_saved.to = wire::Address::Scheduler();
  message_saved.body = std::move(saved);
  out_.Send(std::move(message_saved));
}

int ServerNode::Finish() {
  wire::Notice end{loop_.stop_code(), "stopped by a signal"};
  const bool told = enrolment_.ended().has_value();
  if (told) end = *enrolment_.ended();
  if (failure_.has_value()) end = *failure_;
  if (!told && rank_.has_value()) SayLastWord(end);
  loop_.Flush(&out_);
  LogEnd(end);
  answers_.Close();
  for (const std::unique_ptr<ShardThread>& thread : shards_) thread->Join();
  loop_.transport().Close(kServerLinger);
  ReportEnd();
  return end.code;
}

// The job cannot go on without this server.
void ServerNode::SayLastWord(const wire::Notice& end) {
  wire::Message message;
  message.from = wire::Address::Of(ServerId{*rank_});
  message.to = wire::Address::Scheduler();
  if (end.code == kExitBroken) {
    message.type = MessageType::kBroken;
    message.body = end;
  } else {
    message.type = MessageType::kLeave;
    message.body = wire::Progress{};
  }
  out_.Send(std::move(message));
}

void ServerNode::ReportEnd() {
  const transport::TransportStats moved = loop_.transport().stats();
  NodeReport report{.name = absl::StrCat("server-", rank_.value_or(0)),
                    .sent = moved.sent,
                    .received = moved.received,
                    .sockets = moved.sockets,
                    .shared_bytes = moved.shared_bytes,
                    .malformed = moved.rejected_messages};
  uint64_t violations = 0;
  for (const std::unique_ptr<ShardThread>& thread : shards_) {
    const server::Shard& shard = thread->Join();
    report.rejects += shard.stats().rejects;
    report.duplicates += shard.stats().duplicates;
    report.left_out += shard.stats().left_out;
    AddLedger(shard, &report);
    violations += shard.ledger().Total().violations;
  }
  if (!rank_.has_value()) return;
  WriteCurve();
  if (violations > 0) {
    LOG(ERROR) << "the guarantee of " << job_->specs.policy.spec << " was broken " << violations
               << " times";
  }
  if (reports_ != nullptr) reports_->Take(report);
}

// REQUIRES: the shards' threads have ended.
void ServerNode::WriteCurve() {
  const std::string& path = job_->config.output().curve_path();
  if (path.empty()) return;
  for (const std::unique_ptr<ShardThread>& thread : shards_) {
    if (Index(thread->Join().id()) >= job_->layout->shard_count()) continue;
    const absl::Status written = WriteShardPart(path, thread->Join().id(), thread->TakeSnapshots());
    LOG_IF(ERROR, !written.ok()) << written.message();
  }
}

}  // namespace soapstone::apps
