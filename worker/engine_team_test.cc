// An engine that has a seat in a team, under a policy whose teams take over for lost ones.
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

// Worker 0 is seat 0 of team 0 of two, of two seats each. Of its step a block to seat 1 is last:
// gradients have left before.
class EngineTeamTest : public HandPlayedEngine {
 protected:
  EngineTeamTest() {
    EngineOptions options = SmallJob("bsp", 4, 100);
    SeatOptions seat = {.team = {.teams = 2, .seats = 2}, .shards = {ShardId{0}, ShardId{1}}};
    using Kind = SeatOutline::Step::Kind;
    seat.steps[5] = {.steps = {{.kind = Kind::kRun, .ready = {ParamId{0}}}, {.kind = Kind::kGive}},
                     .outgoing = {{.number = 0, .seat = 1}}};
    options.seat = std::make_shared<const SeatOptions>(std::move(seat));
    engine_.emplace(std::move(options));
    roster_ = RosterOf(4);
    SendRoster(1);
    Message start;
    start.type = MessageType::kStart;
    start.clock = 0;
    Deliver(start);
    Say(1, kNoClock);
  }

  // Seat 1's word, what it had loaded when it took the roster.
  void Say(Epoch epoch, Clock loaded) {
    Message word;
    word.type = MessageType::kLoaded;
    word.from = Address::Of(WorkerId{1});
    word.epoch = epoch;
    word.clock = loaded;
    Deliver(word);
  }

  void LoseTeam1() {
    roster_.workers.Mutable().resize(2);
    SendRoster(2);
  }

  // The device carries out all but the block.
  void RunButTheBlock() {
    std::vector<DeviceCommand> later;
    while (!commands_.empty()) {
      const DeviceCommand command = std::move(commands_.front());
      commands_.erase(commands_.begin());
      if (KindOf(command.what).name == "give") {
        later.push_back(command);
      } else if (command.wants_event) {
        engine_->OnDevice(now_,
                          {.run = command.run, .instruction = command.instruction, .samples = 5},
                          {&out_, &commands_});
      }
    }
    commands_ = std::move(later);
  }

  size_t Loads() const {
    size_t loads = 0;
    for (const DeviceCommand& command : commands_) {
      if (std::holds_alternative<LoadCommand>(command.what)) ++loads;
    }
    return loads;
  }
};

TEST_F(EngineTeamTest, AShardIsAskedForItsNextValuesWithItsClock) {
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  EXPECT_EQ(Sent(MessageType::kPull), 2u);
  RunButTheBlock();
  EXPECT_EQ(Sent(MessageType::kClock), 2u);
  EXPECT_EQ(Sent(MessageType::kPull), 4u);
  RunDevice();
  EXPECT_EQ(Sent(MessageType::kPull), 4u) << "asked twice";
}

// Both shards' values of the next clock came early; before they are loaded a roster came, of which
// seat 1 has not said where it was.
TEST_F(EngineTeamTest, EarlyValuesWaitForTheWordOfTheOtherSeats) {
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  RunButTheBlock();
  Reply(0, 1, 1);
  Reply(1, 1, 1);
  LoseTeam1();
  RunDevice();
  EXPECT_EQ(Loads(), 0u);
  Say(2, 0);
  EXPECT_EQ(Loads(), 2u) << "clock 0 of team 1, and the seat's own clock 1";
}

}  // namespace
}  // namespace soapstone::worker
