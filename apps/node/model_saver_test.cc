#include "apps/node/model_saver.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/steady_clock.h"
#include "compute/init.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/store.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/model_saver_test-", getpid(), "-", name);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

class ModelSaverTest : public ::testing::Test {
 protected:
  ModelSaverTest() {
    layout_ = std::make_shared<const wire::Layout>(*wire::Layout::Build(
        {{.name = "w", .shape = {30, 40}, .init = InitKind::kUniform, .scale = 0.1},
         {.name = "b", .shape = {40}, .init = InitKind::kOne}},
        {.shard_count = 2, .bucket_bytes = 1024}));
    for (uint32_t k = 0; k < 2; ++k) {
      stores_.emplace_back(
          server::TensorStoreOptions{.layout = layout_, .shard = ShardId{k}, .seed = 5});
    }
  }

  std::string Hash() const {
    return server::HashOfShards(layout_, [this](ShardId shard, BucketId bucket) {
      return stores_[Index(shard)].ReadBucket(bucket);
    });
  }

  // Answers what is asked until the saver has come to an end; each wake is one look.
  absl::StatusOr<wire::Saved> Save(const std::string& path) {
    Mutex mutex;
    Signal woken;
    int wakes = 0;
    wire::Outbox out;
    ModelSaver saver({.layout = layout_,
                      .path = path,
                      .metadata = {{"model", "m"}, {"policy", "bsp"}, {"vocabulary", "a"}},
                      .wake =
                          [&] {
                            MutexLock lock(&mutex);
                            ++wakes;
                            woken.Notify();
                          }},
                     &out);
    for (int seen = 0;;) {
      auto end = saver.Advance(&out);
      if (end.has_value()) {
        if (end->ok()) {
          EXPECT_EQ(saver.work().done_bytes, saver.work().total_bytes);
        }
        return *end;
      }
      const std::vector<wire::Message> asked = std::exchange(out.messages, {});
      for (const wire::Message& request : asked) {
        wire::Message answer;
        answer.from = request.to;
        const BucketId bucket = wire::As<wire::Save>(request).bucket;
        answer.body = wire::Slices{.bucket = bucket};
        answer.payload = stores_[request.to.index].ReadBucket(bucket);
        const absl::Status taken = saver.OnSlices(answer, &out);
        EXPECT_TRUE(taken.ok()) << taken;
      }
      if (!asked.empty()) continue;
      MutexLock lock(&mutex);
      while (wakes == seen) woken.Wait(&mutex, SteadyTime::InfiniteFuture());
      seen = wakes;
    }
  }

  std::shared_ptr<const wire::Layout> layout_;
  std::vector<server::Store> stores_;
};

TEST_F(ModelSaverTest, WritesTheFileOfTheWholeModel) {
  const absl::StatusOr<wire::Saved> saved = Save(Path("by-and-by"));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->sha256, Hash());
  std::vector<float> w(1200), b(40);
  compute::InitSlice(layout_->params()[0], 5, ParamId{0}, 0, absl::MakeSpan(w));
  compute::InitSlice(layout_->params()[1], 5, ParamId{1}, 0, absl::MakeSpan(b));
  const std::vector<models::NamedTensor> tensors = {{"w", {30, 40}, w}, {"b", {40}, b}};
  ASSERT_TRUE(
      models::WriteSafetensors(
          Path("whole"), tensors,
          {{"model", "m"}, {"policy", "bsp"}, {"sha256", saved->sha256}, {"vocabulary", "a"}})
          .ok());
  EXPECT_EQ(ReadFile(Path("by-and-by")), ReadFile(Path("whole")));
}

TEST_F(ModelSaverTest, WithoutAPathItHashesOnly) {
  const absl::StatusOr<wire::Saved> saved = Save("");
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, (wire::Saved{.path = "", .sha256 = Hash()}));
}

TEST_F(ModelSaverTest, SaysWhyItCannotWrite) {
  const absl::StatusOr<wire::Saved> saved = Save("/nowhere/model");
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(std::string(saved.status().message()), HasSubstr("/nowhere/model"));
}

TEST_F(ModelSaverTest, WhatIsGivenUpLeavesNoFile) {
  const std::string dir = Path("given-up");
  std::filesystem::create_directories(dir);
  wire::Outbox out;
  {
    ModelSaver saver({.layout = layout_, .path = dir + "/m", .wake = [] {}}, &out);
    EXPECT_FALSE(saver.Advance(&out).has_value());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

}  // namespace
}  // namespace soapstone::apps
