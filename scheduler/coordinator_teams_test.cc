// Teams at the coordinator: a team is dropped whole and admitted whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "base/random.h"
#include "scheduler/coordinator.h"
#include "scheduler/hand_played_job.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Job = HandPlayedJob;

CoordinatorOptions TeamsOfTwo(uint32_t teams) {
  return {.servers = 1, .workers = 2 * teams, .team = wire::TeamShape{.teams = teams, .seats = 2}};
}

std::vector<WorkerId> Workers(std::initializer_list<uint32_t> ranks) {
  std::vector<WorkerId> workers;
  for (const uint32_t rank : ranks) workers.push_back(WorkerId{rank});
  return workers;
}

const wire::Member& MemberOf(const Job& job, uint32_t rank, const wire::Roster& roster) {
  const wire::Member* member = wire::FindMember(roster, WorkerId{rank});
  EXPECT_NE(member, nullptr) << rank << " of " << job.shards() << " shards' roster";
  return *member;
}

TEST(CoordinatorTeams, ALostSeatTakesItsTeamInOneEpoch) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  job.coordinator().TakeNews();
  job.Lose(Worker(3));
  EXPECT_EQ(job.coordinator().epoch(), 2u);
  EXPECT_EQ(RosterWorkers(job.Last(MessageType::kRoster)), Workers({0, 1}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown), ElementsAre(Worker(2)));
  EXPECT_EQ(job.LastNotice(MessageType::kShutdown),
            (Notice{kExitPeerLost, "team 1 is out, for worker 3 is gone"}));
  EXPECT_THAT(job.coordinator().TakeNews(),
              Contains("team 1 is out, for worker 3 is gone; worker 2 ends too; the other teams go "
                       "on"));
  EXPECT_EQ(job.coordinator().ended(), std::nullopt);
  // What it still says is nobody's.
  const uint64_t ignored = job.coordinator().ignored();
  job.Say(Worker(2), MessageType::kDone, AtClock(3));
  EXPECT_EQ(job.coordinator().ignored(), ignored + 1);
}

TEST(CoordinatorTeams, ASeatThatLeavesTakesItsTeam) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  job.Say(Worker(0), MessageType::kLeave, AtClock(5));
  EXPECT_EQ(RosterWorkers(job.Last(MessageType::kRoster)), Workers({2, 3}));
  EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown), ElementsAre(Worker(0), Worker(1)));
  EXPECT_EQ(job.coordinator().ended(), std::nullopt);
}

TEST(CoordinatorTeams, SeatsOfAllTeamsThatAreSilentEndTheJob) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  job.RunTo(6 * kSecond, {Server(0), Worker(0), Worker(2)});
  ASSERT_TRUE(job.coordinator().ended().has_value());
  EXPECT_EQ(job.coordinator().ended()->code, kExitPeerLost);
  EXPECT_EQ(job.coordinator().ended()->text,
            "worker 3 is gone, and no team goes on without one of its 2 seats");
}

TEST(CoordinatorTeams, WhereAllMicroBatchesAreNeededEachThatIsLeftTakesOverOne) {
  for (const uint32_t teams : {2u, 3u}) {
    CoordinatorOptions options = TeamsOfTwo(teams);
    options.needs_all_teams = true;
    Job job(options);
    job.StartAll();
    job.Lose(Worker(3));
    EXPECT_EQ(job.coordinator().ended(), std::nullopt);
    job.Lose(Worker(0));
    ASSERT_TRUE(job.coordinator().ended().has_value());
    EXPECT_EQ(job.coordinator().ended()->code, kExitPeerLost);
    if (teams == 2) continue;
    EXPECT_THAT(job.coordinator().ended()->text,
                HasSubstr("with it team 0: the policy needs the micro-batches of all 3 teams, and "
                          "each of the 1 that are left"));
  }
}

TEST(CoordinatorTeams, WhereSeatsExchangeAmongThemselvesNoTeamGoesOnWithoutAnother) {
  CoordinatorOptions options = TeamsOfTwo(3);
  options.ends_with_a_team = true;
  Job job(options);
  job.StartAll();
  job.Lose(Worker(3));
  ASSERT_TRUE(job.coordinator().ended().has_value());
  EXPECT_EQ(job.coordinator().ended()->code, kExitPeerLost);
  EXPECT_THAT(job.coordinator().ended()->text, HasSubstr("with it team 1: seats of the others"));
}

TEST(CoordinatorTeams, ATeamThatKeepsTheParametersIsNeeded) {
  CoordinatorOptions options = TeamsOfTwo(2);
  options.servers = 2;
  options.beside_workers = true;
  for (const bool keeps : {true, false}) {
    Job job(options);
    job.StartAll();
    job.Lose(Worker(keeps ? 1 : 2));
    EXPECT_EQ(job.coordinator().ended().has_value(), keeps);
    if (!keeps) continue;
    EXPECT_EQ(job.coordinator().ended()->code, kExitPeerLost);
    EXPECT_THAT(job.coordinator().ended()->text, HasSubstr("whose workers keep the parameters"));
  }
}

TEST(CoordinatorTeams, AnotherTeamEvaluatesWhereTheFirstIsLost) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  for (uint32_t w = 0; w < 4; ++w) job.Say(Worker(w), MessageType::kDone, AtClock(9));
  EXPECT_THAT(job.ReceiversOf(MessageType::kEvaluate), ElementsAre(Worker(0), Worker(1)));
  job.Clear();
  job.Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{.samples = 5, .loss_sum = 1});
  job.Lose(Worker(0));
  EXPECT_THAT(job.ReceiversOf(MessageType::kEvaluate), ElementsAre(Worker(2), Worker(3)));
  for (uint32_t w : {1u, 2u, 3u}) {
    job.Say(Worker(w), MessageType::kEvaluated, wire::Evaluation{.samples = 5, .loss_sum = 1});
  }
  EXPECT_EQ(job.coordinator().phase(), Phase::kSaving);
  EXPECT_EQ(job.coordinator().evaluation()->samples, 10u);
  // Nobody is needed any more.
  job.Lose(Worker(2));
  job.Lose(Worker(3));
  EXPECT_EQ(job.coordinator().phase(), Phase::kSaving);
}

TEST(CoordinatorTeams, AreAdmittedWhole) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  job.Lose(Worker(2));
  job.Clear();
  job.coordinator().TakeNews();
  job.SayHello(Role::kWorker, 3, 31);
  EXPECT_THAT(job.ReceiversOf(MessageType::kRoster), IsEmpty());
  job.SayHello(Role::kWorker, 2, 21);
  const auto joining = std::get<wire::Roster>(job.Last(MessageType::kRoster).body);
  for (const uint32_t rank : {2u, 3u}) {
    EXPECT_TRUE(MemberOf(job, rank, joining).joining);
    EXPECT_EQ(MemberOf(job, rank, joining).admitted, job.coordinator().epoch());
    EXPECT_FALSE(MemberOf(job, rank, joining).original);
    EXPECT_EQ(MemberOf(job, rank, joining).key, Job::KeyOf(rank * 10 + 1));
  }
  EXPECT_FALSE(wire::TeamRoster(joining, {.teams = 2, .seats = 2}).workers[0].joining);
  job.AckAll(7);
  const auto placed = std::get<wire::Roster>(job.Last(MessageType::kRoster).body);
  for (const uint32_t rank : {2u, 3u}) {
    EXPECT_FALSE(MemberOf(job, rank, placed).joining);
    EXPECT_EQ(MemberOf(job, rank, placed).start, 7);
  }
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), IsEmpty());
  job.AckAll(7);
  EXPECT_THAT(job.ReceiversOf(MessageType::kStart), ElementsAre(Worker(2), Worker(3)));
  EXPECT_THAT(job.coordinator().TakeNews(), Contains("team 1 joined at clock 7"));
  for (uint32_t w = 0; w < 4; ++w) job.Say(Worker(w), MessageType::kDone, AtClock(9));
  EXPECT_EQ(job.coordinator().phase(), Phase::kEvaluating);
}

TEST(CoordinatorTeams, OneThatIsLostInItsAdmissionHasTheOthersWaitAgain) {
  for (const bool placed : {false, true}) {
    Job job(TeamsOfTwo(2));
    job.StartAll();
    job.Lose(Worker(2));
    job.SayHello(Role::kWorker, 2, 21);
    job.SayHello(Role::kWorker, 3, 31);
    if (placed) job.AckAll(4);
    job.Clear();
    job.Lose(Worker(3));
    EXPECT_EQ(RosterWorkers(job.Last(MessageType::kRoster)), Workers({0, 1}));
    EXPECT_THAT(job.ReceiversOf(MessageType::kShutdown), IsEmpty());
    job.AckAll(5);
    EXPECT_THAT(job.ReceiversOf(MessageType::kStart), IsEmpty());
    job.SayHello(Role::kWorker, 3, 32);
    EXPECT_EQ(RosterWorkers(job.Last(MessageType::kRoster)), Workers({0, 1, 2, 3}));
    job.AckAll(6);
    job.AckAll(6);
    EXPECT_THAT(job.ReceiversOf(MessageType::kStart), ElementsAre(Worker(2), Worker(3)));
    EXPECT_EQ(job.Last(MessageType::kStart).clock, 6);
  }
}

TEST(CoordinatorTeams, PartOfATeamThatWaitsKeepsNobodyFromTheEnd) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  job.Lose(Worker(2));
  job.SayHello(Role::kWorker, 3, 31);
  for (uint32_t w : {0u, 1u}) job.Say(Worker(w), MessageType::kDone, AtClock(9));
  EXPECT_EQ(job.coordinator().phase(), Phase::kEvaluating);
}

TEST(CoordinatorTeams, ATeamInItsAdmissionDoesNotKeepTheJobAlive) {
  Job job(TeamsOfTwo(2));
  job.StartAll();
  job.Lose(Worker(2));
  job.SayHello(Role::kWorker, 2, 21);
  job.SayHello(Role::kWorker, 3, 31);
  job.Lose(Worker(0));
  ASSERT_TRUE(job.coordinator().ended().has_value());
  EXPECT_EQ(job.coordinator().ended()->code, kExitPeerLost);
}

// Whatever happens, a roster has whole teams, and a team has one admission and one start.
TEST(CoordinatorTeams, RostersHaveWholeTeamsInAnyOrderOfEvents) {
  constexpr uint32_t kWorkers = 6;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CoordinatorOptions options = {
        .servers = 1, .workers = kWorkers, .team = wire::TeamShape{.teams = 3, .seats = 2}};
    Job job(options);
    job.StartAll();
    const CounterRandom random(seed, RandomUse::kTest);
    uint64_t nonce = 100;
    for (uint64_t i = 0; i < 60; ++i) {
      const uint64_t drawn = random.Bits(i);
      const auto rank = static_cast<uint32_t>((drawn >> 8) % kWorkers);
      switch (drawn % 4) {
        case 0:
          job.Lose(Worker(rank));
          break;
        case 1:
          job.AckAll(static_cast<Clock>(i));
          break;
        default:
          job.SayHello(Role::kWorker, rank, ++nonce);
      }
      if (job.coordinator().ended().has_value()) break;
      const wire::Roster& roster = job.coordinator().roster();
      ASSERT_EQ(roster.workers.size() % 2, 0u) << seed << " " << i;
      for (size_t w = 0; w < roster.workers.size(); w += 2) {
        const wire::Member& a = roster.workers[w];
        const wire::Member& b = roster.workers[w + 1];
        ASSERT_EQ(Index(a.worker) % 2, 0u);
        ASSERT_EQ(Index(b.worker), Index(a.worker) + 1);
        ASSERT_EQ(a.admitted, b.admitted);
        ASSERT_EQ(a.start, b.start);
        ASSERT_EQ(a.joining, b.joining);
      }
    }
  }
}

}  // namespace
}  // namespace soapstone::scheduler
