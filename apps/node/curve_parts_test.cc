#include "apps/node/curve_parts.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

class CurvePartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    wire::JobConfig config;
    config.set_model("softmax");
    config.mutable_data()->set_path(std::string(SOAPSTONE_SOURCE_DIR) +
                                    "/data/digits/digits.csv.gz");
    config.mutable_training()->set_epochs(1);
    config.mutable_training()->set_batch(32);
    config.mutable_cluster()->set_servers(2);
    config.mutable_cluster()->set_workers(2);
    path_ = absl::StrCat(testing::TempDir(), "/curve_parts_test-",
                         testing::UnitTest::GetInstance()->current_test_info()->name(), ".csv");
    config.mutable_output()->set_curve_path(path_);
    job_ = *PrepareJob(std::move(config));
    RemoveCurveParts(*job_);
  }

  server::Snapshot SnapshotOf(ShardId shard, Nanos at, uint64_t steps, float value) {
    server::Snapshot snapshot{.at = at, .steps = steps};
    for (const wire::Slice& slice : job_->layout->slices(shard)) {
      const std::vector<float> values(slice.elements(), value);
      snapshot.slices.push_back(Buffer::CopyOf(absl::MakeConstSpan(values)));
    }
    return snapshot;
  }

  void WriteWorker(uint32_t worker, const std::string& lines) {
    std::ofstream(WorkerCurvePart(path_, WorkerId{worker})) << lines;
  }

  std::string path_;
  std::shared_ptr<const Job> job_;
};

TEST_F(CurvePartsTest, PutsShardsAndWorkersTogether) {
  ASSERT_TRUE(WriteShardPart(path_, ShardId{0},
                             {SnapshotOf(ShardId{0}, 2 * kSecond, 1, 0),
                              SnapshotOf(ShardId{0}, 5 * kSecond, 2, 0)})
                  .ok());
  ASSERT_TRUE(WriteShardPart(path_, ShardId{1},
                             {SnapshotOf(ShardId{1}, 3 * kSecond, 1, 0),
                              SnapshotOf(ShardId{1}, 4 * kSecond, 2, 0)})
                  .ok());
  WriteWorker(0, "began,1000000000,10\n2000000000,8,16,100\n4500000000,16,20,200\nreplica,3,4\n");
  WriteWorker(1, "began,1500000000,10\n3000000000,8,8,150\n3100000000,16,12,160\nreplica,1,4\n");
  const auto curve = JoinCurve(*job_);
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_EQ(curve->points.size(), 2u);
  const experiment::CurvePoint& first = curve->points[0];
  EXPECT_EQ(first.time_s, 2);  // from the first worker's start to the later shard
  EXPECT_EQ(first.samples, 16u);
  EXPECT_EQ(first.train_loss, 24.0 / 16);
  EXPECT_EQ(first.bytes, 250u);
  EXPECT_GT(first.test_loss, 2.3);  // of equal probabilities: ln 10
  EXPECT_LT(first.test_loss, 2.31);
  const experiment::CurvePoint& last = curve->points[1];
  EXPECT_EQ(last.time_s, 4);
  EXPECT_EQ(last.samples, 32u);
  EXPECT_EQ(last.train_loss, 8.0 / 16);
  EXPECT_EQ(last.bytes, 360u);
  ASSERT_TRUE(curve->replicas.has_value());
  EXPECT_EQ(curve->replicas->min, 0.25);
  EXPECT_EQ(curve->replicas->max, 0.75);
  EXPECT_FALSE(std::filesystem::exists(ShardCurvePart(path_, ShardId{0})));
  EXPECT_FALSE(std::filesystem::exists(WorkerCurvePart(path_, WorkerId{1})));
}

// A seat without a part of the loss has no samples, and its bytes count all the same.
TEST_F(CurvePartsTest, CountsBytesOfWhoHasNoSamples) {
  for (uint32_t k = 0; k < 2; ++k) {
    ASSERT_TRUE(
        WriteShardPart(path_, ShardId{k}, {SnapshotOf(ShardId{k}, 9 * kSecond, 1, 0)}).ok());
  }
  WriteWorker(0, "began,1000000000,10\n2000000000,8,16,100\n");
  {
    auto part = WorkerCurve::Open(path_, WorkerId{1});
    ASSERT_TRUE(part.ok());
    (*part)->Start(kSecond, 7);
    wire::Progress progress;
    for (const uint64_t bytes : {300, 700}) {
      ++progress.clock;
      (*part)->Take(2 * kSecond, progress, bytes);
      (*part)->Take(2 * kSecond, progress, bytes + 1);  // of the same step
    }
  }
  const auto curve = JoinCurve(*job_);
  ASSERT_TRUE(curve.ok()) << curve.status();
  EXPECT_EQ(curve->points.back().samples, 8u);
  EXPECT_EQ(curve->points.back().bytes, 800u);
}

// A rank's second process appends to the part of the first, and counts anew.
TEST_F(CurvePartsTest, CountsBothProcessesOfARank) {
  for (uint32_t k = 0; k < 2; ++k) {
    ASSERT_TRUE(
        WriteShardPart(path_, ShardId{k}, {SnapshotOf(ShardId{k}, 9 * kSecond, 1, 0)}).ok());
  }
  const auto write = [&](uint64_t samples, Nanos at) {
    auto part = WorkerCurve::Open(path_, WorkerId{0});
    ASSERT_TRUE(part.ok());
    (*part)->Start(at, 5);
    wire::Progress progress;
    (*part)->Take(at, progress, 5);  // nothing new
    progress.samples = samples;
    progress.loss_sum = 1;
    (*part)->Take(at + 1, progress, 50);
  };
  write(8, kSecond);
  write(4, 2 * kSecond);
  WriteWorker(1, "began,1000000000,0\n");
  const auto curve = JoinCurve(*job_);
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_EQ(curve->points.size(), 1u);
  EXPECT_EQ(curve->points[0].samples, 12u);
  EXPECT_EQ(curve->points[0].bytes, 100u);
  EXPECT_FALSE(curve->replicas.has_value());
}

TEST_F(CurvePartsTest, ErrorsNameThePart) {
  WriteWorker(0, "began,1,0\n");
  EXPECT_THAT(std::string(JoinCurve(*job_).status().message()), HasSubstr("worker-1: No such"));
  WriteWorker(1, "1,0,0\n");
  EXPECT_THAT(std::string(JoinCurve(*job_).status().message()), HasSubstr("worker-1 is damaged"));
  WriteWorker(1, "began,1,0\n");
  std::ofstream(ShardCurvePart(path_, ShardId{0})) << "short";
  EXPECT_THAT(std::string(JoinCurve(*job_).status().message()), HasSubstr("shard-0 is damaged"));
}

// As on a full disk: no file takes more than so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(CurvePartsTest, WhatCouldNotBeWrittenIsNotDamaged) {
  absl::Status written;
  {
    const FileSizeLimit limit(64);
    const auto part = WorkerCurve::Open(path_, WorkerId{0});
    if (part.ok()) (*part)->Start(1, 0);
    wire::Progress progress;
    for (Nanos now = 2; part.ok() && now < 1000; ++now) {
      ++progress.samples;
      (*part)->Take(now, progress, 50);
    }
    written =
        WriteShardPart(path_, ShardId{0}, {{.slices = {Buffer::CopyOf(std::string(100, 'x'))}}});
  }
  EXPECT_THAT(
      std::string(JoinCurve(*job_).status().message()),
      HasSubstr("cannot write " + WorkerCurvePart(path_, WorkerId{0}) + ": File too large"));
  EXPECT_THAT(std::string(written.message()), HasSubstr("shard-0: File too large"));
  WriteWorker(0, "began,1,0\n");
  WriteWorker(1, "began,1,0\n");
  EXPECT_EQ(JoinCurve(*job_).status().message(), written.message());
}

}  // namespace
}  // namespace soapstone::apps
