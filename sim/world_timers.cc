// Timers of a world's scheduler as choices: World's part (sim/world.h). Time passes by the shipped
// coordinator's own ticks.
#include <utility>

#include "scheduler/coordinator.h"
#include "sim/world.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using Kind = Choice::Kind;

// What ActorFactory's coordinators have.
const scheduler::CoordinatorOptions& Defaults() {
  static const auto& options = *new scheduler::CoordinatorOptions;
  return options;
}

constexpr Nanos kHour = 3600 * kSecond;

}  // namespace

void World::Ask(uint32_t index) {
  wire::Outbox outbox;
  slots_[index].engine->OnTimer(hours_ * kHour, {&outbox, slots_[index].device.commands()});
  AfterEngine(index, &outbox);
}

void World::Watch() {
  ++hours_;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].waits()) Ask(i);
  }
}

// What the scheduler's shell does of checkpoints after each event; hours are its time.
void World::LookAtCut() {
  wire::Outbox out;
  const bool running = coordinator_.phase() == scheduler::Coordinator::Phase::kRunning;
  cut_.Look(hours_ * kHour, coordinator_.roster(), running, &out);
  Send(kScheduler, std::move(out.messages));
  if (cut_.violation().has_value()) Fail(*cut_.violation());
}

void World::AddTimerChoices(std::vector<Choice>* choices) const {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const WorldSlot& slot = slots_[i];
    if (slot.silent && !slot.gone) choices->push_back({Kind::kHeartbeat, i});
    const bool counts = slot.started && !slot.expelled && CanSpare(i);
    if (faults_.timers > 0 && counts) choices->push_back({Kind::kSilence, i});
  }
  if (faults_.timers > 0) choices->push_back({Kind::kDeadline});
}

wire::Message World::HeartbeatOf(NodeIndex node) const {
  const bool server = node < NodeOfSlot(0);
  wire::Message message;
  message.type = wire::MessageType::kHeartbeat;
  message.from = AddressOf(node);
  message.to = Address::Scheduler();
  message.epoch =
      server ? servers_.epoch(node - NodeOfServer(0)) : slots_[node - NodeOfSlot(0)].epoch;
  if (!server) message.session = slots_[node - NodeOfSlot(0)].session;
  return message;
}

// Heartbeats of all that run, but of the slot `but`.
void World::HearAll(std::optional<uint32_t> but) {
  wire::Outbox answers;
  for (uint32_t k = 0; k < servers_.count(); ++k) {
    coordinator_.OnMessage(now_, HeartbeatOf(NodeOfServer(k)), &answers);
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const WorldSlot& slot = slots_[i];
    const bool heard = slot.running() && !slot.expelled && i != but;
    if (heard) coordinator_.OnMessage(now_, HeartbeatOf(NodeOfSlot(i)), &answers);
  }
}

// All are heard at each tick but this worker, until its timeout; whoever has crashed is missed too.
void World::PassSilence(uint32_t index) {
  members_change_ = true;
  const Nanos end = now_ + Defaults().timeout_ns + 2 * Defaults().heartbeat_ns;
  wire::Outbox out;
  while (now_ < end) {
    now_ += Defaults().heartbeat_ns;
    HearAll(index);
    coordinator_.OnTimer(now_, scheduler::Coordinator::kTick, &out);
  }
  WorldSlot& slot = slots_[index];
  slot.expelled = slot.silent = true;
  checkers_.OnWorkerGone(*slot.rank);
  for (WorldSlot& other : slots_) {
    if (other.crashed) other.noticed = true;
  }
  if (!Finished()) Expel(out.messages);
  Send(kScheduler, std::move(out.messages));
}

// One tick that comes later than every deadline: the scheduler forgives the silence that it slept
// through, but not the wait.
void World::PassDeadline() {
  timed_out_ = true;
  now_ += Defaults().finish_timeout_ns + Defaults().heartbeat_ns;
  wire::Outbox out;
  coordinator_.OnTimer(now_, scheduler::Coordinator::kTick, &out);
  if (!Finished()) Expel(out.messages);
  Send(kScheduler, std::move(out.messages));
}

}  // namespace soapstone::sim
