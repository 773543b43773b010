#include "sim/replay.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/actor_options.h"
#include "cluster/worker_recipients.h"
#include "glog/logging.h"
#include "server/model/model_gatherer.h"
#include "wire/outbox.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint64_t kProgressEvery = 4096;  // events

// Said by who has no actor here: to the scheduler hellos, and what servers say of themselves; by
// the scheduler's shell what is for checkpoints. The event has all of it. (The hash of the model is
// server 0's, and is made anew.)
bool IsFromOutside(const RecordedEvent& event, bool at_scheduler) {
  if (event.type == MessageType::kBound || event.type == MessageType::kCheckpoint) return true;
  return at_scheduler && (event.type == MessageType::kHello ||
                          (event.role == Role::kServer && event.type != MessageType::kSaved));
}

class Replayer {
 public:
  Replayer(const Recording& recording, const ReplayOptions& options, ActorFactory factory)
      : options_(options), factory_(std::move(factory)), coordinator_(options.coordinator) {
    for (const RecordedActor& recorded : recording.actors) AddActor(recorded);
    if (options.training != nullptr) gatherer_.emplace(options.training->job.layout);
  }

  ReplayResult Run();

 private:
  // One of: the coordinator, a shard, an engine with its device, a peer.
  struct Actor {
    const RecordedActor* recorded = nullptr;
    size_t next = 0;  // event
    std::optional<server::Shard> shard;
    std::optional<worker::Engine> engine;
    std::optional<server::Peer> peer;
    ReplayDevice device;
    std::deque<worker::DeviceEvent> answers;  // of the device, not yet handled
    bool ready = false;

    Address address() const { return recorded->address; }
    bool over() const { return next == recorded->events.size(); }
    const RecordedEvent& event() const { return recorded->events[next]; }
  };
  using Channel = std::deque<Message>;

  void AddActor(const RecordedActor& recorded);
  bool IsAvailable(const Actor& actor) const;
  const Message* Find(const Actor& actor) const;
  void Look(size_t index);
  void Do(Actor* actor);
  void HandleMessage(Actor* actor, const RecordedEvent& event);
  void HandleDevice(Actor* actor, const RecordedEvent& event);
  void HandleAtScheduler(const RecordedEvent& event);
  Message Take(const Actor& actor, const RecordedEvent& event);
  void SendAll();
  void Send(Message message);
  void SendTo(Address to, Message message);
  void AtServer(const Message& message);
  void RunCommands(Actor* actor);
  std::string Divergence() const;
  std::string WhyNot(const Actor& actor) const;
  void Diverge(const Actor& actor, const std::string& why);

  const ReplayOptions& options_;
  ActorFactory factory_;
  scheduler::Coordinator coordinator_;
  std::vector<Actor> actors_;
  std::map<Address, std::vector<size_t>> by_address_;        // several: one after another
  std::map<std::pair<Address, Address>, Channel> channels_;  // from, to: sent and not handled
  std::set<std::pair<Nanos, size_t>> ready_;                 // actors whose next event is available
  std::optional<server::ModelGatherer> gatherer_;            // server 0's
  server::ModelHash hash_;                                   // of what it has gathered
  wire::Outbox outbox_;                                      // emptied after each event
  std::vector<worker::DeviceCommand> commands_;              // likewise
  ReplayResult result_;
};

void Replayer::AddActor(const RecordedActor& recorded) {
  by_address_[recorded.address].push_back(actors_.size());
  Actor actor = {.recorded = &recorded};
  if (recorded.address.role == Role::kShard) {
    actor.shard = factory_.MakeShard(ShardId{recorded.address.index});
  } else if (recorded.address.role == Role::kWorker) {
    const WorkerId worker{recorded.address.index};
    actor.engine = factory_.MakeEngine(worker);
    actor.device = options_.make_device(worker);
  } else if (recorded.address.role == Role::kPeer) {
    actor.peer = factory_.MakePeer(WorkerId{recorded.address.index});
  }
  actors_.push_back(std::move(actor));
}

ReplayResult Replayer::Run() {
  for (size_t i = 0; i < actors_.size(); ++i) Look(i);
  Nanos first = std::numeric_limits<Nanos>::max();
  Nanos last = std::numeric_limits<Nanos>::min();
  while (!ready_.empty() && !result_.divergence.has_value()) {
    const auto [now, index] = *ready_.begin();
    ready_.erase(ready_.begin());
    actors_[index].ready = false;
    if (!IsAvailable(actors_[index])) continue;  // another of its name took it
    first = std::min(first, now);
    last = std::max(last, now);
    Do(&actors_[index]);
    Look(index);
    if (options_.progress && result_.events % kProgressEvery == 0) {
      options_.progress(result_.events);
    }
  }
  const bool all =
      std::all_of(actors_.begin(), actors_.end(), [](const Actor& actor) { return actor.over(); });
  if (!all && !result_.divergence.has_value()) result_.divergence = Divergence();
  if (result_.events > 0) result_.duration = last - first;
  for (const auto& [ends, channel] : channels_) result_.unread += channel.size();
  result_.evaluation = coordinator_.evaluation();
  return std::move(result_);
}

// ---- What can happen

// Takes the actor into `ready_` where its next event is available.
void Replayer::Look(size_t index) {
  Actor& actor = actors_[index];
  if (actor.ready || actor.over() || !IsAvailable(actor)) return;
  actor.ready = true;
  ready_.insert({actor.event().now, index});
}

bool Replayer::IsAvailable(const Actor& actor) const {
  const RecordedEvent& event = actor.event();
  const bool at_scheduler = actor.address() == Address::Scheduler();
  switch (event.kind) {
    case EventKind::kMessage:
      return IsFromOutside(event, at_scheduler) || Find(actor) != nullptr;
    case EventKind::kDevice:
      return !actor.answers.empty() && actor.answers.front().run == RunOf(event) &&
             actor.answers.front().instruction == event.epoch;
    case EventKind::kLeave:
    case EventKind::kTold:
      return actor.engine.has_value();
    case EventKind::kTimer:
      return at_scheduler || actor.engine.has_value();
    default:
      return at_scheduler;
  }
}

// The message of the actor's next event, if it was sent. One that is not the channel's oldest
// stands behind messages that were lost in the run.
const Message* Replayer::Find(const Actor& actor) const {
  const RecordedEvent& event = actor.event();
  const auto channel = channels_.find({event.from(), actor.address()});
  if (channel == channels_.end()) return nullptr;
  for (const Message& message : channel->second) {
    if (IsNamed(event, message) && ContentOf(message) == event.check) return &message;
  }
  return nullptr;
}

// ---- How it happens

void Replayer::Do(Actor* actor) {
  const RecordedEvent& event = actor->event();
  switch (event.kind) {
    case EventKind::kMessage:
      HandleMessage(actor, event);
      break;
    case EventKind::kDevice:
      HandleDevice(actor, event);
      break;
    case EventKind::kLeave:
      actor->engine->RequestLeave();
      break;
    case EventKind::kTold: {
      Message message = MessageOf(event, Address::Scheduler());
      message.body = actor->engine->ProgressAt(event.now);
      outbox_.Send(std::move(message));
      break;
    }
    case EventKind::kTimer:
      if (!actor->engine.has_value()) {
        HandleAtScheduler(event);
        break;
      }
      actor->engine->OnTimer(event.now, {&outbox_, &commands_});
      break;
    default:
      HandleAtScheduler(event);
  }
  ++actor->next;
  ++result_.events;
  RunCommands(actor);
  SendAll();
}

void Replayer::HandleMessage(Actor* actor, const RecordedEvent& event) {
  ++result_.messages;
  Message message = Take(*actor, event);
  if (actor->shard.has_value()) {
    actor->shard->OnMessage(event.now, std::move(message), &outbox_);
  } else if (actor->engine.has_value()) {
    actor->engine->OnMessage(event.now, message, {&outbox_, &commands_});
  } else if (actor->peer.has_value()) {
    actor->peer->OnMessage(event.now, std::move(message), &outbox_);
  } else {
    coordinator_.OnMessage(event.now, message, &outbox_);
  }
}

Message Replayer::Take(const Actor& actor, const RecordedEvent& event) {
  if (IsFromOutside(event, actor.address() == Address::Scheduler())) {
    return MessageOf(event, actor.address());
  }
  const auto it = channels_.find({event.from(), actor.address()});
  CHECK(it != channels_.end());
  const Message* found = Find(actor);
  Channel& channel = it->second;
  const auto at = std::find_if(channel.begin(), channel.end(),
                               [found](const Message& message) { return &message == found; });
  CHECK(at != channel.end());
  Message message = std::move(*at);
  channel.erase(at);
  if (channel.empty()) channels_.erase(it);
  return message;
}

void Replayer::HandleDevice(Actor* actor, const RecordedEvent& event) {
  worker::DeviceEvent answer = std::move(actor->answers.front());
  actor->answers.pop_front();
  if (CheckOf(answer.frames) != event.bucket) {
    return Diverge(*actor, "its device computed other values");
  }
  answer.compute_ns = event.clock;
  answer.injected_ns = static_cast<Nanos>(event.check);
  actor->engine->OnDevice(event.now, std::move(answer), {&outbox_, &commands_});
}

void Replayer::HandleAtScheduler(const RecordedEvent& event) {
  switch (event.kind) {
    case EventKind::kStart:
      return coordinator_.Start(event.now, &outbox_);
    case EventKind::kTimer:
      return coordinator_.OnTimer(event.now, wire::TimerId{event.index}, &outbox_);
    case EventKind::kLost:
      return coordinator_.OnLost(event.now, event.from(), event.check, &outbox_);
    case EventKind::kEnded:
      return coordinator_.OnConnectionEnded(event.now, event.from());
    default:
      return coordinator_.Abort(event.now, static_cast<int32_t>(event.clock), "aborted", &outbox_);
  }
}

// The device answers at once; its answers are handled when the recording says so.
void Replayer::RunCommands(Actor* actor) {
  std::vector<worker::DeviceEvent> events;
  for (const worker::DeviceCommand& command : commands_) actor->device(command, &events);
  commands_.clear();
  for (worker::DeviceEvent& event : events) actor->answers.push_back(std::move(event));
}

void Replayer::SendAll() {
  outbox_.timers.clear();  // the recording has those that were due
  for (Message& message : outbox_.messages) Send(std::move(message));
  outbox_.messages.clear();
}

void Replayer::Send(Message message) {
  if (message.type == MessageType::kBounded) return;  // the scheduler's shell has taken it
  if (message.to.role == Role::kServer) return AtServer(message);
  if (message.to.role == Role::kWorker) {
    const Address peer = Address::PeerOf(WorkerId{message.to.index});
    const auto to = cluster::RecipientsOf(message, by_address_.contains(peer));
    if (to.peer) SendTo(peer, message);
    if (!to.engine) return;
  }
  const Address to = message.to;
  SendTo(to, std::move(message));
}

void Replayer::SendTo(Address to, Message message) {
  const auto it = by_address_.find(to);
  if (it == by_address_.end()) return;  // a process without a rank
  bool wanted = false;
  for (const size_t index : it->second) wanted = wanted || !actors_[index].over();
  if (!wanted) {
    ++result_.unread;
    return;
  }
  channels_[{message.from, to}].push_back(std::move(message));
  for (const size_t index : it->second) Look(index);
}

// Servers are their shards here, and server 0 what gathers the model in the end.
void Replayer::AtServer(const Message& message) {
  const Address server = Address::Of(ServerId{0});
  if (message.to != server || !gatherer_) return;
  wire::Outbox asked;
  if (message.type == MessageType::kSave) {
    gatherer_->Start(&asked);
  } else if (message.type == MessageType::kSlices) {
    const absl::Status taken = gatherer_->OnSlices(message, &asked);
    CHECK(taken.ok()) << taken;
  } else {
    return;
  }
  while (const std::optional<Buffer> values = gatherer_->TakeNext()) {
    hash_.Add(*values);
    gatherer_->Release(values->size(), &asked);
  }
  for (Message& request : asked.messages) {
    const Address shard = request.to;
    SendTo(shard, std::move(request));
  }
  if (!gatherer_->all_taken() || !result_.sha256.empty()) return;
  result_.sha256 =
      hash_.Finish(server::PutTogether(*options_.training->job.layout, gatherer_->TakeTables()));
  Message saved;
  saved.type = MessageType::kSaved;
  saved.from = server;
  saved.to = Address::Scheduler();
  saved.body = wire::Saved{.sha256 = result_.sha256};
  Send(std::move(saved));
}

// ---- Where it went wrong

// Nothing can happen, and events are left: the earliest of them is what the others wait for.
std::string Replayer::Divergence() const {
  const Actor* earliest = nullptr;
  for (const Actor& actor : actors_) {
    if (actor.over()) continue;
    if (earliest == nullptr || actor.event().now < earliest->event().now) earliest = &actor;
  }
  return absl::StrCat(earliest->recorded->file, ", event ", earliest->next + 1, " of ",
                      earliest->recorded->events.size(), ": ", WhyNot(*earliest));
}

std::string Replayer::WhyNot(const Actor& actor) const {
  const RecordedEvent& event = actor.event();
  if (event.kind == EventKind::kDevice) {
    return absl::StrCat("its device has not answered instruction ", event.epoch, " of run ",
                        RunOf(event));
  }
  if (event.kind != EventKind::kMessage) return "is no event of such an actor";
  const std::string name = wire::ToString(MessageOf(event, actor.address()));
  if (const auto it = channels_.find({event.from(), actor.address()}); it != channels_.end()) {
    for (const Message& message : it->second) {
      if (IsNamed(event, message)) return absl::StrCat(name, ": was sent with other contents");
    }
  }
  std::string why = absl::StrCat("waits for ", name, " of epoch ", event.epoch, ", not sent");
  const auto sender = by_address_.find(event.from());
  if (sender == by_address_.end()) {
    return absl::StrCat(why, ": there is no recording of ", event.from().ToString());
  }
  for (const size_t index : sender->second) {
    const Actor& other = actors_[index];
    if (other.over() && other.recorded->state != RecordingState::kClosed) {
      absl::StrAppend(&why, "; ", other.recorded->file, " ends early");
    }
  }
  return why;
}

void Replayer::Diverge(const Actor& actor, const std::string& why) {
  result_.divergence = absl::StrCat(actor.recorded->file, ", event ", actor.next + 1, " of ",
                                    actor.recorded->events.size(), ": ", why);
}

absl::Status CheckActors(const Recording& recording, const ActorFactory& factory) {
  for (const RecordedActor& actor : recording.actors) {
    const uint32_t index = actor.address.index;
    const bool of_worker =
        actor.address.role == Role::kWorker ||
        (actor.address.role == Role::kPeer && cluster::HasPeer(factory.job(), WorkerId{index}));
    const bool known = actor.address == Address::Scheduler() ||
                       (actor.address.role == Role::kShard && index < factory.shards()) ||
                       (of_worker && index < factory.job().workers);
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat(actor.file, ": ", actor.address.ToString(),
                                                     " is no actor of the recorded job"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayResult> Replay(const Recording& recording, const ReplayOptions& options) {
  SOAP_ASSIGN_OR_RETURN(ActorFactory factory, options.training != nullptr
                                                  ? ActorFactory::MakeTraining(*options.training)
                                                  : ActorFactory::Make(options.shape));
  SOAP_RETURN_IF_ERROR(CheckActors(recording, factory));
  return Replayer(recording, options, std::move(factory)).Run();
}

}  // namespace soapstone::sim
