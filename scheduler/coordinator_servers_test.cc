// Servers that are lost, or leave, of a job whose shards have replicas.
#include <gmock/gmock.h>

#include "base/exit_codes.h"
#include "scheduler/hand_played_job.h"

namespace soapstone::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CoordinatorServersTest : public ::testing::Test {
 protected:
  void Start(uint32_t replicas = 2) {
    job_.emplace(CoordinatorOptions{.servers = 3, .workers = 2, .replicas = replicas});
    for (uint32_t s = 0; s < 3; ++s) job_->SayHello(Role::kServer, s, 10 + s);
    for (uint32_t w = 0; w < 2; ++w) job_->SayHello(Role::kWorker, w, 20 + w);
  }
  Coordinator& coordinator() { return job_->coordinator(); }
  std::vector<uint32_t> ServersOf(uint32_t shard) {
    std::vector<uint32_t> servers;
    for (const wire::Link& link : coordinator().roster().chains[shard].links) {
      servers.push_back(Index(link.server));
    }
    return servers;
  }

  std::optional<HandPlayedJob> job_;
};

TEST_F(CoordinatorServersTest, ALostServersShardsGoOnElsewhere) {
  Start();
  EXPECT_THAT(ServersOf(0), ElementsAre(0, 1));
  job_->AckAll();
  ASSERT_EQ(coordinator().phase(), Phase::kRunning);
  const Epoch before = coordinator().epoch();
  job_->Lose(Server(0));
  EXPECT_FALSE(coordinator().ended().has_value());
  EXPECT_EQ(coordinator().epoch(), before + 1);
  EXPECT_THAT(ServersOf(0), ElementsAre(1));
  EXPECT_THAT(ServersOf(1), ElementsAre(1, 2));
  EXPECT_THAT(ServersOf(2), ElementsAre(2));
  EXPECT_EQ(coordinator().roster().chains[0].links[0].since, before + 1);
  EXPECT_EQ(coordinator().roster().servers.size(), 2u);
  // Who has the last replica of a shard is not to be spared.
  job_->Lose(Server(2));
  ASSERT_TRUE(coordinator().ended().has_value());
  EXPECT_EQ(coordinator().ended()->code, kExitPeerLost);
  EXPECT_THAT(coordinator().ended()->text, HasSubstr("server 2 lost"));
}

TEST_F(CoordinatorServersTest, OneThatIsLostWhileShardsAreMadeIsMissedByNobody) {
  Start();
  job_->Ack(1);
  job_->Lose(Server(0));
  EXPECT_EQ(coordinator().phase(), Phase::kInstalling);
  job_->AckAll();
  EXPECT_EQ(coordinator().phase(), Phase::kRunning);
}

TEST_F(CoordinatorServersTest, AServerThatIsToldToEndLeavesWhereOthersHaveItsShards) {
  Start();
  job_->AckAll();
  EXPECT_TRUE(job_->Leaves(Server(1)));
  EXPECT_THAT(ServersOf(1), ElementsAre(2));
  EXPECT_FALSE(job_->Leaves(Server(1)));  // it is gone
  EXPECT_FALSE(job_->Leaves(Server(2)));  // it has shard 1 alone
  EXPECT_FALSE(coordinator().ended().has_value());
}

TEST_F(CoordinatorServersTest, WithoutReplicasNoServerIsSpared) {
  Start(1);
  job_->AckAll();
  EXPECT_TRUE(coordinator().roster().chains.empty());
  EXPECT_FALSE(job_->Leaves(Server(1)));
  job_->Lose(Server(1));
  EXPECT_TRUE(coordinator().ended().has_value());
}

// Who saves the model is lost: another one does.
TEST_F(CoordinatorServersTest, TheFirstServerThatIsLeftSavesTheModel) {
  Start(3);
  job_->AckAll();
  for (uint32_t w = 0; w < 2; ++w) job_->Say(Worker(w), MessageType::kDone, wire::Progress{});
  job_->Say(Worker(0), MessageType::kEvaluated, wire::Evaluation{.samples = 1});
  ASSERT_EQ(coordinator().phase(), Phase::kSaving);
  job_->Lose(Server(0));
  ASSERT_EQ(coordinator().phase(), Phase::kSaving);
  job_->Say(Server(2), MessageType::kSaved, wire::Saved{.path = "m", .sha256 = "0"});
  EXPECT_EQ(coordinator().phase(), Phase::kSaving);
  job_->Say(Server(1), MessageType::kSaved, wire::Saved{.path = "m", .sha256 = "0"});
  ASSERT_TRUE(coordinator().ended().has_value());
  EXPECT_EQ(coordinator().ended()->code, kExitOk);
}

}  // namespace
}  // namespace soapstone::scheduler
