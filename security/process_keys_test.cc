#include "security/process_keys.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::security {
namespace {

std::shared_ptr<const ProcessKeys> ProcessOf(KeyRole role) {
  static const auto* folder = [] {
    auto* path = new std::string(absl::StrCat(testing::TempDir(), "/process-keys-", getpid()));
    std::filesystem::remove_all(*path);
    EXPECT_TRUE(GenerateKeys(*path).ok());
    return path;
  }();
  return MakeProcessKeys(std::make_shared<const JobKeys>(*ReadJobKeys(*folder, role)));
}

TEST(ProcessKeysTest, EachProcessHasItsOwnAndTheSchedulerItsRoles) {
  const auto worker = ProcessOf(KeyRole::kWorker), other = ProcessOf(KeyRole::kWorker);
  EXPECT_NE(worker->own.open, other->own.open);
  EXPECT_NE(worker->own.open, worker->job->own());
  const auto scheduler = ProcessOf(KeyRole::kScheduler);
  EXPECT_EQ(scheduler->own.open, worker->job->PublicOf(KeyRole::kScheduler));
}

TEST(ProcessKeysTest, TwoMakeTheSameProofAndNobodyElseDoes) {
  const auto worker = ProcessOf(KeyRole::kWorker), other = ProcessOf(KeyRole::kWorker);
  const auto server = ProcessOf(KeyRole::kServer), scheduler = ProcessOf(KeyRole::kScheduler);
  for (const auto& listener : {server, scheduler}) {
    const auto proof = worker->ProofTo(listener->own.open, "text");
    ASSERT_TRUE(proof.has_value());
    EXPECT_EQ(*proof, listener->ProofTo(worker->own.open, "text"));
    EXPECT_NE(*proof, listener->ProofTo(worker->own.open, "another text"));
    EXPECT_NE(*proof, other->ProofTo(listener->own.open, "text"));
    EXPECT_NE(*proof, listener->ProofTo(other->own.open, "text"));
  }
  EXPECT_EQ(worker->ProofTo(PublicKey{}, "text"), std::nullopt) << "agrees with everybody";
}

TEST(ProcessKeysTest, KeysAreAsLongAsTheyAre) {
  const PublicKey key = ProcessOf(KeyRole::kServer)->own.open;
  EXPECT_EQ(PublicKeyOf(BytesOf(key)), key);
  for (const size_t size : {0, 1, 31, 33}) {
    EXPECT_EQ(PublicKeyOf(std::string(size, 'k')), std::nullopt) << size;
  }
}

}  // namespace
}  // namespace soapstone::security
