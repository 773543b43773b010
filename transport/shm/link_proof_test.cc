// What is believed of who is at the other end of a link. No sockets: a proof that is believed by
// mistake fails here at once.
#include "transport/shm/link_proof.h"

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using security::KeyRole;
using Process = std::shared_ptr<const security::ProcessKeys>;
using Note = std::optional<ProofNote>;

constexpr char kMeeting[] = "tcp://here:1 of this machine";

class LinkProofTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::remove_all(Folder());
    ASSERT_TRUE(security::GenerateKeys(Folder()).ok());
    ASSERT_TRUE(security::GenerateKeys(Folder() + "/other").ok());
  }
  static std::string Folder() { return absl::StrCat(testing::TempDir(), "/link-proof-", getpid()); }
  static Process In(KeyRole role, const char* job = "") {
    return security::MakeProcessKeys(
        std::make_shared<const security::JobKeys>(*security::ReadJobKeys(Folder() + job, role)));
  }
  static LinkEnd EndOf(const Process& process) {
    return {.role = process->job->role, .key = process->own.open};
  }
  // The claim of who connects to `listener`, and then what `bend` has made of it, is believed.
  bool ClaimIsBelieved(
      const Process& connects, const std::function<void(ProofNote*)>& bend = [](ProofNote*) {}) {
    LinkProof listens(server_, kMeeting);
    LinkProof proof(connects, kMeeting, EndOf(server_));
    Note claim, answer;
    EXPECT_TRUE(proof.Take(*listens.First(), &claim));
    bend(&*claim);
    const bool taken = listens.Take(*claim, &answer);
    EXPECT_EQ(taken, listens.proven());
    EXPECT_EQ(taken, answer.has_value());
    EXPECT_TRUE(!taken || listens.other_key() == connects->own.open);
    return taken;
  }
  // The answer of who listens, in the place of the process `expected`, is believed.
  static bool AnswerIsBelieved(
      const Process& listens, const LinkEnd& expected,
      const std::function<void(ProofNote*)>& bend = [](ProofNote*) {}) {
    LinkProof there(listens, kMeeting);
    LinkProof connects(In(KeyRole::kWorker), kMeeting, expected);
    Note claim, answer, none;
    EXPECT_TRUE(connects.Take(*there.First(), &claim));
    there.Take(*claim, &answer);
    if (!answer.has_value()) answer = ProofNote{.word = ProofNote::Word::kAnswer};
    bend(&*answer);
    const bool taken = connects.Take(*answer, &none);
    EXPECT_EQ(taken, connects.proven());
    return taken;
  }

  const Process server_ = In(KeyRole::kServer);
  const Process worker_ = In(KeyRole::kWorker);
};

TEST_F(LinkProofTest, MembersBelieveEachOther) {
  EXPECT_TRUE(ClaimIsBelieved(worker_));
  EXPECT_TRUE(ClaimIsBelieved(In(KeyRole::kServer)));
  EXPECT_TRUE(AnswerIsBelieved(server_, EndOf(server_)));
  const Process scheduler = In(KeyRole::kScheduler);
  EXPECT_TRUE(
      AnswerIsBelieved(scheduler, {.role = KeyRole::kScheduler, .key = scheduler->job->own()}));
}

TEST_F(LinkProofTest, AClaimIsNotBelievedForBeingMade) {
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->proof = {}; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->proof[3] ^= 1; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->nonce[3] ^= 1; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->nonce = {}; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->role = 0; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->role = 77; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->magic = 0; }));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->version = 1; }));
  EXPECT_FALSE(ClaimIsBelieved(In(KeyRole::kWorker, "/other"))) << "another job's keys";
}

TEST_F(LinkProofTest, AnAnswerIsNotBelievedForBeingMade) {
  const LinkEnd server = EndOf(server_);
  EXPECT_FALSE(AnswerIsBelieved(server_, server, [](ProofNote* answer) { answer->proof = {}; }));
  EXPECT_FALSE(AnswerIsBelieved(server_, server, [](ProofNote* answer) { answer->proof[3] ^= 1; }));
  EXPECT_FALSE(AnswerIsBelieved(worker_, server)) << "a worker in a server's place";
  EXPECT_FALSE(AnswerIsBelieved(In(KeyRole::kServer, "/other"), server)) << "another job's keys";
}

// Who has the role's key is not for that another process of the role.
TEST_F(LinkProofTest, AProcessIsNotAnotherOfItsRole) {
  const auto others_key = [](ProofNote* claim) { claim->key = In(KeyRole::kWorker)->own.open; };
  EXPECT_FALSE(ClaimIsBelieved(worker_, others_key));
  EXPECT_FALSE(ClaimIsBelieved(worker_, [](ProofNote* claim) { claim->key = {}; }));
  auto thief = std::make_shared<security::ProcessKeys>(*worker_);
  thief->own.open = In(KeyRole::kWorker)->own.open;
  EXPECT_FALSE(ClaimIsBelieved(thief)) << "another's public half, and what it has itself";
  EXPECT_FALSE(AnswerIsBelieved(In(KeyRole::kServer), EndOf(server_))) << "another server";
  EXPECT_FALSE(AnswerIsBelieved(server_, {.role = KeyRole::kServer, .key = server_->job->own()}))
      << "who has the role's key alone";
  EXPECT_FALSE(AnswerIsBelieved(server_, {.role = KeyRole::kWorker, .key = server_->own.open}))
      << "in another role";
}

// Nor does its own key make a process one of the role.
TEST_F(LinkProofTest, AProcessWithoutTheRolesKeyIsNotOfIt) {
  auto forged = std::make_shared<security::JobKeys>(*In(KeyRole::kWorker, "/other")->job);
  forged->public_keys = worker_->job->public_keys;
  EXPECT_FALSE(ClaimIsBelieved(security::MakeProcessKeys(forged)));
}

TEST_F(LinkProofTest, NothingIsTakenTwiceOrOutOfTurn) {
  LinkProof listens(server_, kMeeting), connects(worker_, kMeeting, EndOf(server_));
  Note claim, answer, none;
  const Note nonce = listens.First();
  EXPECT_FALSE(listens.Take(*nonce, &none));
  ASSERT_TRUE(connects.Take(*nonce, &claim));
  EXPECT_FALSE(connects.Take(*nonce, &none));
  EXPECT_FALSE(connects.Take(*claim, &none));
  ASSERT_TRUE(listens.Take(*claim, &answer));
  EXPECT_FALSE(listens.Take(*claim, &none));
  ASSERT_TRUE(connects.Take(*answer, &none));
  EXPECT_FALSE(connects.Take(*answer, &none));
}

}  // namespace
}  // namespace soapstone::transport
