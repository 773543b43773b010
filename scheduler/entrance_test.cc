#include "scheduler/entrance.h"

#include <string>
#include <variant>

#include "base/exit_codes.h"
#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

using wire::Address;
using wire::Role;
using Stage = Entrance::Stage;

wire::Hello HelloOf(Role role, uint64_t nonce, const std::string& arithmetic = "avx2") {
  wire::Hello hello;
  hello.role = role;
  hello.nonce = nonce;
  hello.config_digest = 9;
  hello.arithmetic = arithmetic;
  return hello;
}

class EntranceTest : public testing::Test {
 protected:
  // "refused CODE: text", "again RANK", "rank RANK"; who is let in sits there.
  std::string Judge(const wire::Hello& hello, Stage stage = Stage::kRegistering) {
    const Entrance::Verdict verdict = entrance_.Judge(0, hello, &nodes_, stage);
    if (const auto* out = std::get_if<Entrance::Out>(&verdict)) {
      if (out->type == wire::MessageType::kWait) return "wait: " + out->why.text;
      return "refused " + std::to_string(out->why.code) + ": " + out->why.text;
    }
    if (const auto* again = std::get_if<Entrance::Again>(&verdict)) {
      return "again " + std::to_string(again->place.index);
    }
    const Address place = std::get<Address>(verdict);
    nodes_.Add(place, hello, 0, 0);
    return "rank " + std::to_string(place.index);
  }

  Registry nodes_{1, 2, /*under_way_ns=*/kSecond / 2};
  Entrance entrance_{{.config_digest = 9, .one_arithmetic = true}};
};

TEST_F(EntranceTest, EachProcessHasOneRank) {
  EXPECT_EQ(Judge(HelloOf(Role::kWorker, 1)), "rank 0");
  EXPECT_EQ(Judge(HelloOf(Role::kWorker, 1)), "again 0");
  EXPECT_EQ(Judge(HelloOf(Role::kWorker, 2)), "rank 1");
  EXPECT_EQ(Judge(HelloOf(Role::kServer, 3)), "rank 0");
  EXPECT_EQ(Judge(HelloOf(Role::kServer, 4)).substr(0, 6), "wait: ");
}

// Who says another's nonce is not for that the other process.
TEST_F(EntranceTest, AProcessIsKnownByItsKeyToo) {
  wire::Hello hello = HelloOf(Role::kServer, 3);
  hello.key = "a key";
  EXPECT_EQ(Judge(hello), "rank 0");
  EXPECT_EQ(Judge(hello), "again 0");
  hello.key = "another";
  EXPECT_EQ(Judge(hello).substr(0, 6), "wait: ");
}

// The same job would come to the same end again; another one, or one that was only interrupted, may
// be tried.
TEST_F(EntranceTest, WhoComesAfterTheEndIsToTryAgainUnlessThatCannotHelp) {
  const auto after = [](int32_t code) { return Entrance::AfterTheEnd(true, {code, "why"}).why; };
  for (const int32_t code : {kExitOk, kExitPeerLost, kExitTerminated, kExitInterrupted}) {
    EXPECT_EQ(after(code), (wire::Notice{kExitPeerLost, "the job is over: why"}));
  }
  for (const int32_t code : {kExitConfig, kExitNotFinite, kExitBroken, kExitInternal}) {
    EXPECT_EQ(after(code).code, code);
  }
  EXPECT_EQ(Entrance::AfterTheEnd(false, {kExitConfig, "why"}).why.code, kExitPeerLost);
}

TEST_F(EntranceTest, AnotherConfigurationIsRefusedWithoutAWordOfOurs) {
  wire::Hello hello = HelloOf(Role::kWorker, 1);
  hello.config_digest = 8;
  const std::string said = Judge(hello);
  EXPECT_NE(said.find("refused " + std::to_string(kExitConfig)), std::string::npos) << said;
  EXPECT_EQ(said.find("0000000000000009"), std::string::npos) << said;
}

TEST_F(EntranceTest, TheFirstOfARoleSaysHowAllCompute) {
  EXPECT_EQ(Judge(HelloOf(Role::kServer, 1, "libm A")), "rank 0");
  EXPECT_EQ(Judge(HelloOf(Role::kWorker, 2, "avx2")), "rank 0") << "servers compute otherwise";
  const std::string said = Judge(HelloOf(Role::kWorker, 3, "avx512"));
  EXPECT_NE(said.find("computes with avx512 where worker 0 does with avx2"), std::string::npos)
      << said;
  EXPECT_EQ(Judge(HelloOf(Role::kWorker, 4, "avx2")), "rank 1");
}

TEST_F(EntranceTest, WhoComesLateMayOnlyBeAWorkerOfAJobThatRuns) {
  EXPECT_EQ(Judge(HelloOf(Role::kWorker, 1), Stage::kRunning), "rank 0");
  EXPECT_NE(Judge(HelloOf(Role::kServer, 2), Stage::kRunning).find("a server cannot join"),
            std::string::npos);
  EXPECT_NE(Judge(HelloOf(Role::kWorker, 3), Stage::kEnding).find("nobody can join"),
            std::string::npos);
}

}  // namespace
}  // namespace soapstone::scheduler
