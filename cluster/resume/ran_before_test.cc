#include "cluster/resume/ran_before.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/disk.h"
#include "checkpoint/folder.h"
#include "cluster/job_config.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

class RanBeforeTest : public testing::Test {
 protected:
  RanBeforeTest() {
    std::filesystem::remove_all(folder_);
    config_.mutable_cluster()->set_workers(4);
    config_.mutable_training()->set_micro_batches(8);
    config_.mutable_output()->set_checkpoint_path(folder_);
    config_.mutable_output()->set_resume("auto");
  }
  ~RanBeforeTest() override { std::filesystem::remove_all(folder_); }

  // One of the job as it is, without parts.
  void Write(int64_t clock) {
    wire::Checkpoint manifest;
    manifest.set_clock(clock);
    manifest.set_job(JobText(config_));
    manifest.set_strategy("devices: 4\nbatch: 48\n");
    const auto disk = checkpoint::RealDisk();
    ASSERT_TRUE(disk->MakeFolder(checkpoint::UnderWay(folder_, clock, 0)).ok());
    ASSERT_TRUE(checkpoint::Commit(disk.get(), folder_, manifest).ok());
  }
  int64_t ClockFor(const std::string& resume) {
    wire::JobConfig config = config_;
    config.mutable_output()->set_resume(resume);
    const std::optional<wire::Checkpoint> before = RanBefore(config);
    return before.has_value() ? before->clock() : -1;
  }

  // Of this test alone: others of the fixture run at the same time.
  const std::string folder_ = testing::TempDir() + "/ran_before_test_" +
                              testing::UnitTest::GetInstance()->current_test_info()->name();
  wire::JobConfig config_;
};

TEST_F(RanBeforeTest, IsTheNewestWithAManifestOrTheOneThatIsNamed) {
  EXPECT_EQ(ClockFor("auto"), -1);
  for (const int64_t clock : {100, 200, 300}) Write(clock);
  std::ofstream(folder_ + "/000000300/manifest.textproto", std::ios::app) << "x";
  EXPECT_EQ(ClockFor("auto"), 200);
  EXPECT_EQ(ClockFor("100"), 100);
  EXPECT_EQ(ClockFor("300"), -1);
  for (const char* none : {"0", "never", "", "sometimes", "777"}) EXPECT_EQ(ClockFor(none), -1);
  config_.clear_output();
  EXPECT_EQ(ClockFor("auto"), -1);
}

TEST_F(RanBeforeTest, OpenMicroBatchesAreThoseOfBeforeAndOthersStay) {
  Write(100);
  const std::optional<wire::Checkpoint> before = RanBefore(config_);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->strategy(), "devices: 4 batch: 48 ");
  wire::JobConfig open = config_;
  open.mutable_training()->clear_micro_batches();
  TakeMicroBatches(before, &open);
  EXPECT_EQ(open.training().micro_batches(), 8u);
  open.mutable_training()->set_micro_batches(3);
  TakeMicroBatches(before, &open);
  EXPECT_EQ(open.training().micro_batches(), 3u);
  open.mutable_training()->clear_micro_batches();
  TakeMicroBatches(std::nullopt, &open);
  EXPECT_EQ(open.training().micro_batches(), 0u);
}

TEST_F(RanBeforeTest, ItRunsAsBeforeOnAsManyWorkersInAsManyTeams) {
  Write(100);
  const std::optional<wire::Checkpoint> before = RanBefore(config_);
  ASSERT_TRUE(before.has_value());
  EXPECT_TRUE(RunsAsBefore(*before, config_));
  config_.mutable_cluster()->set_teams(1);  // one is none
  EXPECT_TRUE(RunsAsBefore(*before, config_));
  config_.mutable_cluster()->set_teams(2);
  EXPECT_FALSE(RunsAsBefore(*before, config_));
  config_.mutable_cluster()->set_teams(1);
  config_.mutable_cluster()->set_workers(2);
  EXPECT_FALSE(RunsAsBefore(*before, config_));
}

}  // namespace
}  // namespace soapstone::apps
