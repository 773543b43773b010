#include "server/shard/shard_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "consistency/catalogue.h"

namespace soapstone::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::Address;
using wire::Message;

wire::Roster RosterOf(std::initializer_list<wire::Member> workers) {
  wire::Roster roster;
  roster.workers = workers;
  return roster;
}

Message From(Address from, uint32_t worker, Epoch epoch) {
  Message message;
  message.from = from;
  message.worker = WorkerId{worker};
  message.epoch = epoch;
  return message;
}

Message FromWorker(uint32_t worker, Epoch epoch) {
  return From(Address::Of(WorkerId{worker}), worker, epoch);
}

wire::Member Ranked(uint32_t worker, Epoch admitted, Clock start = 0, bool joining = false) {
  return {.worker = WorkerId{worker}, .start = start, .admitted = admitted, .joining = joining};
}

// Of two groups, {0, 1} and {2}.
TEST(GroupRosterTest, AGroupGoesOnWhileAnybodyOfItDoes) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy("tree:group=2,s=1");
  wire::Roster before, groups;
  const auto next = [&](Epoch epoch, std::initializer_list<wire::Member> workers) {
    wire::Roster roster;
    roster.workers = workers;
    groups = GroupRoster(before, groups, roster, epoch, traits);
    before = roster;
  };
  const wire::Member zero = {.worker = WorkerId{0}, .admitted = 1};
  const wire::Member two = {.worker = WorkerId{2}, .admitted = 1};
  next(1, {zero, two});
  ASSERT_EQ(groups.workers.size(), 2u);
  EXPECT_EQ(groups.workers[1].worker, WorkerId{1});
  const wire::Member late = {.worker = WorkerId{1}, .start = 5, .admitted = 2, .joining = true};
  next(2, {zero, late, two});
  next(3, {late, two});  // the newcomer holds its group's place, and its clock
  EXPECT_EQ(groups.workers[0].admitted, 1u);
  EXPECT_EQ(groups.workers[0].start, 0);
  EXPECT_FALSE(groups.workers[0].joining);
  next(4, {late});
  EXPECT_EQ(groups.workers.size(), 1u);
  const wire::Member again = {.worker = WorkerId{2}, .admitted = 5, .joining = true};
  next(5, {late, again});
  EXPECT_EQ(groups.workers[1].admitted, 5u);
  EXPECT_TRUE(groups.workers[1].joining);
  wire::Member started = again;
  started.joining = false;
  started.start = 9;
  next(6, {late, started});
  EXPECT_EQ(groups.workers[1].admitted, 5u);
  EXPECT_EQ(groups.workers[1].start, 9);
  EXPECT_FALSE(groups.workers[1].joining);
}

TEST(ShardMembersTest, AMemberAloneMaySpeakFromItsAdmissionOnInItsOwnName) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy("async");
  ShardMembers members(ShardId{0}, 1, traits);
  EXPECT_THAT(members.WhyNotTaken(FromWorker(0, 1)), HasSubstr("not a member"));
  members.Install(RosterOf({Ranked(0, 1), Ranked(1, 3)}), 3, traits);
  EXPECT_EQ(members.epoch(), 3u);
  EXPECT_EQ(members.WhyNotTaken(FromWorker(0, 1)), "");
  EXPECT_EQ(members.WhyNotTaken(FromWorker(0, 4)), "");  // it has heard of a newer roster
  EXPECT_EQ(members.WhyNotTaken(FromWorker(1, 3)), "");
  EXPECT_THAT(members.WhyNotTaken(FromWorker(1, 2)), HasSubstr("stale epoch 2"));
  EXPECT_THAT(members.WhyNotTaken(FromWorker(2, 3)), HasSubstr("not a member"));
  EXPECT_THAT(members.WhyNotTaken(From(Address::Of(WorkerId{1}), 0, 3)), HasSubstr("name"));
  EXPECT_THAT(members.WhyNotTaken(From(Address::Of(ShardId{0}), 0, 3)), HasSubstr("name"));
  members.Install(RosterOf({Ranked(0, 1)}), 4, traits);
  EXPECT_THAT(members.WhyNotTaken(FromWorker(1, 3)), HasSubstr("not a member in epoch 4"));
}

TEST(ShardMembersTest, WhoLeftOrWasReplacedIsGoneOnce) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy("async");
  ShardMembers members(ShardId{0}, 1, traits);
  EXPECT_THAT(members.Install(RosterOf({Ranked(0, 1), Ranked(1, 1), Ranked(2, 1)}), 1, traits).gone,
              IsEmpty());
  EXPECT_THAT(members.Install(RosterOf({Ranked(0, 1), Ranked(1, 2)}), 2, traits).gone,
              ElementsAre(WorkerId{1}, WorkerId{2}));
  EXPECT_THAT(members.Install(RosterOf({Ranked(0, 1), Ranked(1, 2), Ranked(2, 3)}), 3, traits).gone,
              IsEmpty());
  EXPECT_THAT(members.Install(RosterOf({}), 4, traits).gone,
              ElementsAre(WorkerId{0}, WorkerId{1}, WorkerId{2}));
}

TEST(ShardMembersTest, TheLatestStartIsOfThoseThatHaveOne) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy("async");
  ShardMembers members(ShardId{0}, 1, traits);
  EXPECT_EQ(members.LatestStart(), 0);
  members.Install(RosterOf({Ranked(0, 1, 2), Ranked(1, 1, 5), Ranked(2, 1, 9, /*joining=*/true)}),
                  1, traits);
  EXPECT_EQ(members.LatestStart(), 5);
}

TEST(ShardMembersTest, TheFingerprintTellsMembersAndTheirProcessesApart) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy("async");
  const auto print = [&](const wire::Roster& roster) {
    ShardMembers members(ShardId{0}, 1, traits);
    members.Install(roster, 3, traits);
    Fingerprint f;
    members.AddTo(&f);
    return f.value();
  };
  EXPECT_NE(print(RosterOf({Ranked(0, 1)})), print(RosterOf({Ranked(1, 1)})));
  EXPECT_NE(print(RosterOf({Ranked(0, 1)})), print(RosterOf({Ranked(0, 2)})));
}

// Two root shards, groups {0, 1} and {2, 3}: shards 2 and 3 are the branches of group 0, 4 and 5
// those of group 1.
class TreeMembersTest : public ::testing::Test {
 protected:
  const consistency::PolicyTraits traits_ = *consistency::ParsePolicy("tree:group=2,s=1");
  ShardMembers root_{ShardId{1}, 2, traits_};
  ShardMembers branch_{ShardId{5}, 2, traits_};
};

TEST_F(TreeMembersTest, ARootHasGroupsWhichSpeakThroughItsBranches) {
  root_.Install(RosterOf({Ranked(0, 1), Ranked(1, 1), Ranked(2, 1), Ranked(3, 1)}), 1, traits_);
  EXPECT_EQ(root_.level(), consistency::Level::kRoot);
  EXPECT_EQ(root_.roster().workers.size(), 2u);
  EXPECT_EQ(root_.AddressOf(WorkerId{0}), Address::Of(ShardId{3}));
  EXPECT_EQ(root_.AddressOf(WorkerId{1}), Address::Of(ShardId{5}));
  EXPECT_EQ(root_.WhyNotTaken(From(Address::Of(ShardId{5}), 1, 1)), "");
  EXPECT_NE(root_.WhyNotTaken(From(Address::Of(ShardId{4}), 1, 1)), "");
  EXPECT_NE(root_.WhyNotTaken(FromWorker(1, 1)), "");
  EXPECT_NE(root_.WhyNotTaken(From(Address::Of(ShardId{7}), 2, 1)), "");
}

TEST_F(TreeMembersTest, ABranchHasTheWorkersOfItsGroup) {
  branch_.Install(RosterOf({Ranked(0, 1), Ranked(2, 1), Ranked(3, 1)}), 1, traits_);
  EXPECT_EQ(branch_.level(), consistency::Level::kBranch);
  EXPECT_NE(branch_.WhyNotTaken(FromWorker(0, 1)), "");
  EXPECT_EQ(branch_.WhyNotTaken(FromWorker(2, 1)), "");
  EXPECT_EQ(branch_.WhyNotTaken(FromWorker(3, 1)), "");
}

TEST_F(TreeMembersTest, ABranchRestartsWhenItIsAnotherMemberToItsRoot) {
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(0, 1), Ranked(2, 1)}), 1, traits_).restart, Clock{0});
  // Another group's members, and one more of its own: it goes on.
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(0, 2), Ranked(2, 1)}), 2, traits_).restart,
            std::nullopt);
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(2, 1), Ranked(3, 3, 4)}), 3, traits_).restart,
            std::nullopt);
  // Whoever holds the group's place is enough.
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(3, 3, 4)}), 4, traits_).restart, std::nullopt);
  // Nobody is left: there is nobody to begin anew.
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(0, 2)}), 5, traits_).restart, std::nullopt);
  // A newcomer begins at the root's frontier; then at the start clock that it is given.
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(2, 6, 0, /*joining=*/true)}), 6, traits_).restart,
            Clock{0});
  EXPECT_EQ(branch_.Install(RosterOf({Ranked(2, 6, 9)}), 7, traits_).restart, Clock{9});
}

}  // namespace
}  // namespace soapstone::server
