#include "transport/node/rank_holders.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using security::KeyRole;
using wire::Address;
using wire::Role;
using Process = std::shared_ptr<const security::ProcessKeys>;

constexpr Address kThird = {Role::kWorker, 3};
constexpr Address kFourth = {Role::kWorker, 4};

Process ProcessIn(KeyRole role) {
  static const auto* folder = [] {
    auto* path = new std::string(absl::StrCat(testing::TempDir(), "/rank-holders-", getpid()));
    std::filesystem::remove_all(*path);
    EXPECT_TRUE(security::GenerateKeys(*path).ok());
    return path;
  }();
  return security::MakeProcessKeys(
      std::make_shared<const security::JobKeys>(*security::ReadJobKeys(*folder, role)));
}

std::string KeyOf(const Process& process) { return security::BytesOf(process->own.open); }

// What the process says first on its connection.
Handshake NoteOf(const Process& process, const std::string& connection, const Process& listener) {
  Handshake note;
  EXPECT_TRUE(RankHolders(process).Introduce(connection, listener->own.open, &note).ok());
  return note;
}

class RankHoldersTest : public testing::Test {
 protected:
  bool Proves(const Process& process, const std::string& connection) {
    const Handshake note = NoteOf(process, connection, server_);
    return holders_.Prove(connection, note.key, note.token);
  }
  const Process server_ = ProcessIn(KeyRole::kServer);
  const Process worker_ = ProcessIn(KeyRole::kWorker);
  const Process other_ = ProcessIn(KeyRole::kWorker);
  RankHolders holders_{server_};
};

TEST_F(RankHoldersTest, WhoConnectsProvesItsOwnKey) {
  EXPECT_TRUE(Proves(worker_, "a"));
  ASSERT_NE(holders_.KeyAt("a"), nullptr);
  EXPECT_EQ(*holders_.KeyAt("a"), worker_->own.open);
  EXPECT_EQ(holders_.KeyAt("b"), nullptr);
}

// By the proof of another connection, to another listener, by another process, or none.
TEST_F(RankHoldersTest, NobodyProvesAnothersKey) {
  const Handshake shown = NoteOf(worker_, "a", server_);
  EXPECT_FALSE(holders_.Prove("b", shown.key, shown.token)) << "as shown elsewhere";
  const Handshake elsewhere = NoteOf(worker_, "b", ProcessIn(KeyRole::kServer));
  EXPECT_FALSE(holders_.Prove("b", elsewhere.key, elsewhere.token)) << "as shown to another server";
  const Handshake others = NoteOf(other_, "b", server_);
  EXPECT_FALSE(holders_.Prove("b", shown.key, others.token)) << "another's proof";
  EXPECT_FALSE(holders_.Prove("b", shown.key, {})) << "none";
  EXPECT_FALSE(holders_.Prove("b", {}, {})) << "no key";
  EXPECT_FALSE(holders_.Prove("b", server_->own.open, shown.token)) << "the listener's own";
  EXPECT_EQ(holders_.KeyAt("b"), nullptr);
}

TEST_F(RankHoldersTest, AConnectionStaysWhoseItIs) {
  ASSERT_TRUE(Proves(worker_, "a"));
  EXPECT_FALSE(Proves(other_, "a"));
  EXPECT_EQ(*holders_.KeyAt("a"), worker_->own.open);
  EXPECT_TRUE(Proves(worker_, "a")) << "once more";
}

TEST_F(RankHoldersTest, ARankIsOneProcessAtATime) {
  EXPECT_TRUE(holders_.Set(kThird, KeyOf(worker_)));
  EXPECT_FALSE(holders_.Set(kThird, KeyOf(worker_))) << "nothing is new";
  EXPECT_EQ(holders_.HolderOf(worker_->own.open), kThird);
  EXPECT_FALSE(holders_.Set(kFourth, KeyOf(worker_))) << "it has a rank";
  EXPECT_TRUE(holders_.Set(kThird, KeyOf(other_)));
  EXPECT_EQ(holders_.HolderOf(other_->own.open), kThird);
  EXPECT_EQ(holders_.HolderOf(worker_->own.open), Address{});
  EXPECT_EQ(holders_.KeyOf(kThird), other_->own.open);
  for (const Address place : {kThird, kFourth}) {
    EXPECT_FALSE(holders_.Set(place, KeyOf(worker_))) << "it was counted out";
  }
  EXPECT_EQ(holders_.HolderOf(other_->own.open), kThird);
  for (const char* bad : {"", "short"}) EXPECT_FALSE(holders_.Set(kThird, bad));
}

TEST_F(RankHoldersTest, TheSchedulerIsKnownFromTheStart) {
  EXPECT_EQ(holders_.KeyOf(Address::Scheduler()), ProcessIn(KeyRole::kScheduler)->own.open);
  EXPECT_EQ(holders_.KeyOf(kThird), std::nullopt);
}

TEST_F(RankHoldersTest, WhoMayBeAMemberIsAwaitedAndWhoWasOneIsNot) {
  EXPECT_TRUE(holders_.IsAwaited(worker_->own.open));
  holders_.Set(kThird, KeyOf(worker_));
  EXPECT_FALSE(holders_.IsAwaited(worker_->own.open));
  holders_.Set(kThird, KeyOf(other_));
  EXPECT_FALSE(holders_.IsAwaited(worker_->own.open));
  EXPECT_FALSE(RankHolders(ProcessIn(KeyRole::kScheduler)).IsAwaited(worker_->own.open));
}

TEST_F(RankHoldersTest, OfProcessesWithoutARankTheOldestAreForgotten) {
  RankHolders few(server_, /*connections_max=*/4, /*unranked_max=*/2);
  few.Set(kThird, KeyOf(worker_));
  const auto proves = [&](const Process& process, const std::string& connection) {
    const Handshake note = NoteOf(process, connection, server_);
    return few.Prove(connection, note.key, note.token);
  };
  EXPECT_TRUE(proves(worker_, "member"));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(proves(other_, absl::StrCat(i)));
  EXPECT_EQ(few.connections(), 3u);
  EXPECT_NE(few.KeyAt("member"), nullptr);
  EXPECT_NE(few.KeyAt("8"), nullptr);
  EXPECT_EQ(few.KeyAt("0"), nullptr);
  few.Set(kFourth, KeyOf(other_));
  EXPECT_TRUE(proves(other_, "more"));
  EXPECT_FALSE(proves(other_, "too many"));
}

TEST(RankHoldersWithoutKeysTest, NothingIsAskedOfAnybody) {
  RankHolders holders(nullptr);
  EXPECT_FALSE(holders.asked());
  EXPECT_EQ(holders.own_key(), "");
  EXPECT_FALSE(holders.Set(kThird, std::string(32, 'k')));
  EXPECT_FALSE(holders.Prove("a", {}, {}));
}

}  // namespace
}  // namespace soapstone::transport
