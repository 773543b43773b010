// A worker of a job with keys that lies: it registers as others do, computes nothing, and does what
// it is told on standard input, a word a line, each answered with the same word when it is done:
//
//   as RANK     says, by its own connections, in the name of that worker, that it leaves
//   other RANK  the same by another process's: all that it knows (worker.key, the session, the
//               roster) and a key of its own that no roster has
//   silent      sends no more heartbeats
//   leave       leaves in its own name
//
// It ends with its standard input.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <variant>

#include "apps/cli/job_source.h"
#include "apps/cli/node_flags.h"
#include "apps/loop/message_router.h"
#include "apps/node/registration.h"
#include "apps/node/wire_limits.h"
#include "base/steady_clock.h"
#include "cluster/job.h"
#include "glog/logging.h"
#include "transport/node/node_transport.h"

namespace soapstone::apps {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr Address kAskedServer = {wire::Role::kServer, 0};

class FalseMember {
 public:
  FalseMember(const NodeFlags& flags, std::shared_ptr<const Job> job)
      : flags_(flags),
        job_(std::move(job)),
        transport_(Open()),
        router_(transport_.get(), job_->config.cluster().shards_per_server()),
        membership_(MembershipClientOptionsOf(
            *job_, wire::Role::kWorker, {.wanted_rank = 2, .nonce = 1u + getpid()}, *transport_)) {
    transport_->SetSelf(membership_.temporary_address());
    Connect(transport_.get());
  }

  int Run() {
    membership_.Start(Now(), &out_);
    while (!membership_.ended().has_value()) {
      if (const auto message = transport_->Receive(SteadyNow() + absl::Milliseconds(10))) {
        Take(*message);
      }
      if (!silent_ && Now() >= beat_at_) {
        membership_.OnTimer(Now(), {}, &out_);
        beat_at_ = Now() + kSecond / 10;
      }
      Flush();
      if (router_.waiting()) router_.Retry();
      pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (!rostered_ || poll(&input, 1, 0) <= 0) continue;
      std::string line;
      if (!std::getline(std::cin, line)) break;
      Obey(line);
    }
    transport_->Close(absl::Seconds(1));
    return 0;
  }

 private:
  static Nanos Now() { return SteadyNow().nanos(); }

  std::unique_ptr<transport::Transport> Open() const {
    auto keys = security::ReadJobKeys(flags_.key, security::KeyRole::kWorker);
    CHECK(keys.ok()) << keys.status();
    transport::ZmqOptions options;
    options.keys =
        security::MakeProcessKeys(std::make_shared<const security::JobKeys>(*std::move(keys)));
    options.shared_memory = job_->config.cluster().transport() == "auto";
    options.streams = true;
    LimitToJob(*job_, &options);
    auto opened = transport::MakeNodeTransport(options);
    CHECK(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  void Connect(transport::Transport* transport) const {
    const std::string& at = job_->config.cluster().scheduler();
    CHECK(transport->Connect(Address::Scheduler(), at).ok());
  }
  void Flush() {
    for (Message& message : out_.messages) router_.Send(std::move(message));
    out_ = {};
  }

  void Take(const Message& message) {
    membership_.OnMessage(Now(), message, &out_);
    if (!rank_.has_value() && membership_.rank().has_value()) {
      rank_ = membership_.rank();
      transport_->SetSelf(Address::Of(WorkerId{*rank_}));
      transport_->SetSession(membership_.session());
    }
    const auto* roster = std::get_if<wire::Roster>(&message.body);
    if (roster == nullptr) return;
    roster_ = *roster;
    router_.Follow(roster_);
    router_.ConnectServers(roster_, 0, 1);
    if (!rostered_) std::cout << "member" << std::endl;
    rostered_ = true;
  }

  void Obey(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    uint32_t rank = 0;
    words >> word >> rank;
    if (word == "silent") silent_ = true;
    if (word == "leave") Say(transport_.get(), *rank_);
    if (word == "as") {
      Say(transport_.get(), rank);
      transport_->SetSelf(Address::Of(WorkerId{*rank_}));
    }
    if (word == "other") {
      others_.push_back(Open());
      transport::Transport* other = others_.back().get();
      other->SetSession(membership_.session());
      MessageRouter router(other, 1);
      router.Follow(roster_);
      Connect(other);
      router.ConnectServers(roster_, 0, 1);
      Say(other, rank);
      // Until all of it has gone out.
      const SteadyTime end = SteadyNow() + absl::Seconds(2);
      while (SteadyNow() < end) other->Receive(SteadyNow() + absl::Milliseconds(10));
    }
    std::cout << word << std::endl;
  }

  // That the worker leaves, to the scheduler, and asks for values, to a server.
  void Say(transport::Transport* transport, uint32_t rank) const {
    const Address name = Address::Of(WorkerId{rank});
    transport->SetSelf(name);
    Message leave;
    leave.type = MessageType::kLeave;
    leave.from = name;
    leave.clock = 0;
    leave.body = wire::Progress{};
    Message pull;
    pull.type = MessageType::kPull;
    pull.from = name;
    pull.to = Address::Of(ShardId{0});
    pull.worker = WorkerId{rank};
    pull.clock = 0;
    pull.body = wire::Pull{};
    for (const wire::Member& member : roster_.workers) {
      if (Index(member.worker) == rank) pull.epoch = member.admitted;
    }
    for (const auto& [to, message] :
         {std::pair(Address::Scheduler(), leave), {kAskedServer, pull}}) {
      const absl::Status sent = transport->Send(to, message);
      LOG_IF(ERROR, !sent.ok()) << "not said to " << to.ToString() << ": " << sent;
    }
  }

  const NodeFlags flags_;
  const std::shared_ptr<const Job> job_;
  std::unique_ptr<transport::Transport> transport_;
  MessageRouter router_;
  wire::MembershipClient membership_;
  std::vector<std::unique_ptr<transport::Transport>> others_;
  wire::Outbox out_;
  std::optional<uint32_t> rank_;
  wire::Roster roster_;
  bool rostered_ = false;
  bool silent_ = false;
  Nanos beat_at_ = 0;
};

int FalseMemberMain(int argc, char** argv) {
  const auto parsed = ParseNodeFlags("soapstone-worker", argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return end->code;
  const NodeFlags& flags = std::get<NodeFlags>(parsed);
  const absl::StatusOr<wire::JobConfig> config = ConfigFromFlags(flags);
  CHECK(config.ok()) << config.status();
  absl::StatusOr<std::shared_ptr<const Job>> job = PrepareJob(*config);
  CHECK(job.ok()) << job.status();
  return FalseMember(flags, *std::move(job)).Run();
}

}  // namespace
}  // namespace soapstone::apps

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11's errors are caught, and others end the program.
int main(int argc, char** argv) { return soapstone::apps::FalseMemberMain(argc, argv); }
