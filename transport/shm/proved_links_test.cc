// Links of a job with keys: who has none of them, and is of the same user, gets nothing.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "security/key_agreement.h"
#include "transport/shm/link_proof.h"
#include "transport/shm/link_socket.h"
#include "transport/shm/shm_links.h"

namespace soapstone::transport {
namespace {

using security::JobKeys;
using security::KeyRole;
using Process = std::shared_ptr<const security::ProcessKeys>;
using Note = std::optional<ProofNote>;

class ProvedLinksTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(SharedArena::Enable());
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(testing::TempDir(), "/proved-", test->name());
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(security::GenerateKeys(folder_).ok());
    ASSERT_TRUE(security::GenerateKeys(folder_ + "/other").ok());
    endpoint_ = absl::StrCat("tcp://proved:", getpid(), "-", test->name());
    at_server_ = Of(KeyRole::kServer);
    at_worker_ = Of(KeyRole::kWorker);
    server_there_ = {.role = KeyRole::kServer, .key = at_server_->own.open};
    server_ = std::make_unique<ShmLinks>(LocalOptions{
        .keys = at_server_, .admits = [this](const security::PublicKey&) { return admits_; }});
    worker_ = std::make_unique<ShmLinks>(LocalOptions{.keys = at_worker_});
  }
  // A process of its own each time.
  Process Of(KeyRole role, const char* job = "") const {
    return security::MakeProcessKeys(
        std::make_shared<const JobKeys>(*security::ReadJobKeys(folder_ + job, role)));
  }
  // Turns both until `done`; false: not in time.
  template <typename Done>
  bool Turn(const Done& done, absl::Duration within = absl::Seconds(20)) {
    for (const SteadyTime until = SteadyNow() + within; !done();) {
      if (SteadyNow() > until) return false;
      server_->Progress();
      worker_->Progress();
    }
    return true;
  }
  std::string Next(ShmLinks* at, LinkId* from) {
    Buffers frames;
    if (!Turn([&] { return at->Receive(from, &frames); })) return "nothing";
    return std::string(reinterpret_cast<const char*>(frames[0].data()), frames[0].size());
  }
  // The other side has closed it.
  bool IsEnded(int fd) {
    char bytes[200];
    return Turn([&] { return recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 0; });
  }
  ProofNote NonceFrom(int fd) {
    ProofNote note;
    EXPECT_TRUE(Turn([&] { return ReceiveProofNote(fd, &note) == LinkNoteCame::kNote; }));
    return note;
  }

  std::string folder_, endpoint_;
  Process at_server_, at_worker_;
  LinkEnd server_there_;
  bool admits_ = true;
  std::unique_ptr<ShmLinks> server_, worker_;
};

TEST_F(ProvedLinksTest, MembersGetALinkAndKnowWhoseItIs) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  const auto out = worker_->Connect(endpoint_, server_there_);
  ASSERT_TRUE(out.has_value());
  BufferPool pool;
  const Buffer large = pool.Take(1 << 20).View();
  ASSERT_TRUE(worker_->Send(*out, "before anything is proved", {large}).ok());
  EXPECT_EQ(worker_->Proven(*out), nullptr);
  LinkId in = 0, back = 0;
  EXPECT_EQ(Next(server_.get(), &in), "before anything is proved");
  ASSERT_TRUE(server_->Send(in, "answer", {large}).ok());
  EXPECT_EQ(Next(worker_.get(), &back), "answer");
  EXPECT_EQ(back, *out);
  ASSERT_NE(worker_->Proven(*out), nullptr);
  EXPECT_EQ(*worker_->Proven(*out), server_there_);
  const LinkEnd worker_there = {.role = KeyRole::kWorker, .key = at_worker_->own.open};
  ASSERT_NE(server_->Proven(in), nullptr);
  EXPECT_EQ(*server_->Proven(in), worker_there);
  EXPECT_EQ(server_->unproven() + worker_->unproven(), 0u);
}

// Each of the many links has a large message before anything is proved; the two ends turn at once.
TEST_F(ProvedLinksTest, WhatIsLargeAndEarlyArrivesWhateverComesFirst) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  constexpr int kLinks = 300;
  BufferPool pool;
  const BufferPool::Block block = pool.Take(1 << 20);
  std::memset(block.data, 7, block.size);
  const Buffer large = block.View();
  std::atomic<int> got = 0;
  std::jthread serves([&](const std::stop_token& stop) {
    LinkId from = 0;
    Buffers frames;
    while (!stop.stop_requested()) {
      server_->Progress();
      if (server_->Receive(&from, &frames)) {
        if (frames.size() == 2 && frames[1] == large) ++got;
      } else if (!server_->PrepareToSleep()) {
        std::vector<pollfd> items;
        server_->AddPollItems(&items);
        poll(items.data(), items.size(), 10);
        server_->Woke();
      }
    }
  });
  for (int i = 0; i < kLinks; ++i) {
    const auto out = worker_->Connect(endpoint_, server_there_);
    ASSERT_TRUE(out.has_value());
    ASSERT_TRUE(worker_->Send(*out, "early", {large}).ok());
    const SteadyTime until = SteadyNow() + absl::Seconds(20);
    while (got <= i && SteadyNow() < until) worker_->Progress();
    ASSERT_EQ(got, i + 1);
    worker_->Drop(*out);
  }
}

TEST_F(ProvedLinksTest, ASocketThatBreaksIsProvedAgain) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  const auto out = worker_->Connect(endpoint_, server_there_);
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(Turn([&] { return worker_->state(*out) == ShmLinks::State::kOpen; }));
  for (int round = 0; round < 4; ++round) {
    std::vector<pollfd> items;
    worker_->AddPollItems(&items);
    ASSERT_EQ(shutdown(items[0].fd, SHUT_RDWR), 0);
    BufferPool pool;  // a segment that was never shown
    const Buffer large = pool.Take(size_t{24} << 20).View();
    const std::string text = absl::StrCat(round);
    ASSERT_TRUE(Turn([&] { return worker_->Send(*out, text, {large}).ok(); }));
    LinkId in = 0;
    ASSERT_EQ(Next(server_.get(), &in), text);
  }
  EXPECT_TRUE(worker_->TakeLost().empty());
  EXPECT_TRUE(server_->TakeLost().empty());
  EXPECT_EQ(server_->unproven() + worker_->unproven(), 0u);
}

// A process of the same user without a key of the job, or with one and another's role.
TEST_F(ProvedLinksTest, WithoutAKeyThereIsNoLink) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  const int memory = SharedChannel::MakeMemory();
  uint64_t sent_away = 0;
  const auto expect_is_sent_away = [&](const char* who, const auto& say) {
    const int fd = DialLink(endpoint_);
    ASSERT_GE(fd, 0);
    say(fd, NonceFrom(fd));
    const LinkNote hello = {.word = LinkNote::Word::kHello, .id = 1, .size = 1};
    SendLinkNote(fd, hello, {memory, memory, memory});
    EXPECT_TRUE(IsEnded(fd)) << who;
    EXPECT_EQ(server_->unproven(), ++sent_away) << who;
    EXPECT_FALSE(server_->any_open()) << who;
    close(fd);
  };
  const auto claim_of = [&](Process process, const ProofNote& nonce) {
    Note claim;
    LinkProof proof(std::move(process), endpoint_, server_there_);
    EXPECT_TRUE(proof.Take(nonce, &claim));
    return *claim;
  };
  expect_is_sent_away("who proves nothing", [](int, const ProofNote&) {});
  expect_is_sent_away("a proof of zeros", [](int fd, const ProofNote&) {
    SendProofNote(fd, {.word = ProofNote::Word::kClaim, .role = 2});
  });
  expect_is_sent_away("no role", [](int fd, const ProofNote&) {
    SendProofNote(fd, {.word = ProofNote::Word::kClaim, .role = 77});
  });
  expect_is_sent_away("what it was told",
                      [](int fd, const ProofNote& nonce) { SendProofNote(fd, nonce); });
  expect_is_sent_away("another job's keys", [&](int fd, const ProofNote& nonce) {
    SendProofNote(fd, claim_of(Of(KeyRole::kWorker, "/other"), nonce));
  });
  expect_is_sent_away("a worker that says it is the scheduler",
                      [&](int fd, const ProofNote& nonce) {
                        ProofNote claim = claim_of(Of(KeyRole::kWorker), nonce);
                        claim.role = static_cast<uint32_t>(KeyRole::kScheduler);
                        SendProofNote(fd, claim);
                      });
  expect_is_sent_away("a claim for another nonce", [&](int fd, const ProofNote& nonce) {
    ProofNote other = nonce;
    other.nonce[5] ^= 1;
    SendProofNote(fd, claim_of(Of(KeyRole::kWorker), other));
  });
  close(memory);
}

// Who listens in a server's place is handed no memory, whatever it answers.
TEST_F(ProvedLinksTest, WhoListensWithoutAKeyIsHandedNothing) {
  const int listener = *ListenForLinks(endpoint_);
  for (int kind = 0; kind < 5; ++kind) {
    const auto out = worker_->Connect(endpoint_, server_there_);
    ASSERT_TRUE(out.has_value());
    ASSERT_TRUE(worker_->Send(*out, "secret", {}).ok());
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ASSERT_GE(fd, 0);
    LinkProof false_one(Of(kind == 4 ? KeyRole::kServer : KeyRole::kWorker), endpoint_);
    ASSERT_TRUE(SendProofNote(fd, *false_one.First()));
    if (kind == 0) SendLinkNote(fd, {.word = LinkNote::Word::kTaken});
    ProofNote claim = NonceFrom(fd);
    EXPECT_EQ(claim.word, ProofNote::Word::kClaim);
    if (kind == 1) SendProofNote(fd, {.word = ProofNote::Word::kAnswer});
    if (kind == 2) {  // the proof that it was given
      claim.word = ProofNote::Word::kAnswer;
      SendProofNote(fd, claim);
    }
    Note answer;
    if (kind >= 3) {  // a worker, or another server, in a server's place
      false_one.Take(claim, &answer);
      SendProofNote(fd, answer.value_or(ProofNote{.word = ProofNote::Word::kAnswer}));
    }
    // Nothing but the claim came, and no descriptor.
    LinkNote note;
    LinkFds came;
    EXPECT_TRUE(Turn([&] { return ReceiveLinkNote(fd, &note, &came) == LinkNoteCame::kEnd; }));
    EXPECT_TRUE(came.fds.empty());
    LinkId from = 0;
    Buffers frames;
    EXPECT_TRUE(Turn([&] {
      return !worker_->Receive(&from, &frames) && worker_->state(*out) == ShmLinks::State::kGone;
    }));
    EXPECT_EQ(worker_->unproven(), static_cast<uint64_t>(kind + 1));
    close(fd);
  }
  close(listener);
}

// The secret of a worker's and the scheduler's keys together is known to every worker.
TEST_F(ProvedLinksTest, AWorkersKeyDoesNotAnswerAsTheScheduler) {
  const Process attacker = Of(KeyRole::kWorker);
  const auto& scheduler = attacker->job->PublicOf(KeyRole::kScheduler);
  LinkProof victim(Of(KeyRole::kWorker), endpoint_,
                   {.role = KeyRole::kScheduler, .key = scheduler});
  const auto pair = security::MakeKeyPair();
  Note claim, none;
  ASSERT_TRUE(victim.Take({.word = ProofNote::Word::kNonce, .nonce = pair->open}, &claim));
  const auto& worker = attacker->job->secret;
  for (const auto& known :
       {security::AgreedSecret(worker, scheduler), security::AgreedSecret(pair->secret, scheduler),
        security::AgreedSecret(worker, claim->nonce),
        security::AgreedSecret(pair->secret, claim->nonce),
        security::AgreedSecret(attacker->own.secret, claim->nonce),
        security::AgreedSecret(pair->secret, attacker->job->own())}) {
    std::string text = "soapstone link answer worker scheduler ";
    for (const auto& said : {pair->open, claim->nonce, claim->key}) {
      text.append(reinterpret_cast<const char*>(said.data()), said.size());
    }
    text += endpoint_;
    ASSERT_FALSE(victim.Take(
        {.word = ProofNote::Word::kAnswer, .proof = security::ProofOf(*known, text)}, &none));
    EXPECT_FALSE(victim.proven());
  }
}

// Nor does who has a server's key claim a worker's at a server.
TEST_F(ProvedLinksTest, AServersKeyDoesNotClaimToBeAWorkers) {
  LinkProof victim(Of(KeyRole::kServer), endpoint_);
  const Process attacker = Of(KeyRole::kServer);
  const Note nonce = victim.First();
  const auto pair = security::MakeKeyPair();
  const auto& worker = attacker->job->PublicOf(KeyRole::kWorker);
  const auto claim_by = [&](const security::Secret& process, const security::Secret& role) {
    std::string text = " worker server ";
    for (const auto& said : {nonce->nonce, pair->open, attacker->own.open}) {
      text.append(reinterpret_cast<const char*>(said.data()), said.size());
    }
    text += endpoint_;
    const security::Proof inner = security::ProofOf(process, "soapstone link claim" + text);
    const std::string both = "soapstone link claim" + std::string(inner.begin(), inner.end());
    return security::ProofOf(role, both + text);
  };
  const auto process = security::AgreedSecret(attacker->own.secret, nonce->nonce);
  for (const auto& known : {security::AgreedSecret(attacker->job->secret, worker),
                            security::AgreedSecret(pair->secret, worker),
                            security::AgreedSecret(pair->secret, nonce->nonce), process,
                            security::AgreedSecret(attacker->job->secret, nonce->nonce)}) {
    Note answer;
    EXPECT_FALSE(victim.Take({.word = ProofNote::Word::kClaim,
                              .role = static_cast<uint32_t>(KeyRole::kWorker),
                              .nonce = pair->open,
                              .key = attacker->own.open,
                              .proof = claim_by(*process, *known)},
                             &answer));
  }
}

// Of a member of whom the listener has not heard yet.
TEST_F(ProvedLinksTest, AClaimIsLeftUnansweredUntilItsProcessIsAdmitted) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  admits_ = false;
  const auto out = worker_->Connect(endpoint_, server_there_);
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(worker_->Send(*out, "early", {}).ok());
  bool came = false;
  ASSERT_TRUE(Turn([&] {  // the server has read the claim, and reads no more
    std::vector<pollfd> items;
    server_->AddPollItems(&items);
    came = came || items.size() > 1;
    return came && items.size() == 1;
  }));
  LinkId in = 0;
  Buffers frames;
  for (int i = 0; i < 100; ++i) {
    server_->Progress();
    worker_->Progress();
    ASSERT_FALSE(server_->Receive(&in, &frames));
    ASSERT_EQ(worker_->state(*out), ShmLinks::State::kOpening);
  }
  admits_ = true;
  EXPECT_EQ(Next(server_.get(), &in), "early");
  EXPECT_EQ(worker_->state(*out), ShmLinks::State::kOpen);
  EXPECT_EQ(server_->unproven(), 0u);
}

// Though it has learned the token of a member's link.
TEST_F(ProvedLinksTest, AnotherProcessDoesNotGoOnWithALink) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  constexpr uint64_t kToken = 5;
  const auto dial = [&](const Process& process) {
    const int fd = DialLink(endpoint_);
    LinkProof proof(process, endpoint_ + " " + WhereNamesAre(), server_there_);
    Note claim, none;
    EXPECT_TRUE(proof.Take(NonceFrom(fd), &claim));
    EXPECT_TRUE(SendProofNote(fd, *claim));
    EXPECT_TRUE(proof.Take(NonceFrom(fd), &none));
    return fd;
  };
  const auto answer = [&](int fd) {
    LinkNote note;
    LinkFds came;
    EXPECT_TRUE(Turn([&] { return ReceiveLinkNote(fd, &note, &came) == LinkNoteCame::kNote; }));
    return note.word;
  };
  const int memory = SharedChannel::MakeMemory();
  ASSERT_TRUE(SharedChannel::Map(memory, true, {}, 1 << 20).ok());
  const int first = dial(at_worker_);
  const LinkNote hello = {
      .word = LinkNote::Word::kHello, .id = kToken, .size = SharedChannel::MemoryBytes()};
  ASSERT_TRUE(SendLinkNote(first, hello, {memory, memory, memory}));
  EXPECT_EQ(answer(first), LinkNote::Word::kTaken);
  for (const bool honest : {false, true}) {
    const int again = dial(honest ? at_worker_ : Of(KeyRole::kWorker));
    ASSERT_TRUE(SendLinkNote(again, {.word = LinkNote::Word::kGoOn, .id = kToken}));
    EXPECT_EQ(answer(again), honest ? LinkNote::Word::kTaken : LinkNote::Word::kUnknown);
    close(again);
  }
  close(first);
  close(memory);
}

// While a new socket is to be proved, what lies in the memory is still its owner's.
TEST_F(ProvedLinksTest, WhatComesWhileASocketIsProvedAnewIsNotLost) {
  ASSERT_TRUE(server_->Listen(endpoint_).ok());
  const auto out = worker_->Connect(endpoint_, server_there_);
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(worker_->Send(*out, "first", {}).ok());
  LinkId in = 0, back = 0;
  ASSERT_EQ(Next(server_.get(), &in), "first");
  ASSERT_TRUE(Turn([&] { return worker_->state(*out) == ShmLinks::State::kOpen; }));
  std::vector<pollfd> items;
  worker_->AddPollItems(&items);
  ASSERT_EQ(shutdown(items[0].fd, SHUT_RDWR), 0);
  for (int i = 0; i < 3; ++i) worker_->Progress();  // it dials; the server does not turn
  ASSERT_TRUE(server_->Send(in, "meanwhile", {}).ok());
  Buffers frames;
  ASSERT_TRUE(worker_->Receive(&back, &frames));
  ASSERT_NE(worker_->Proven(back), nullptr);
  EXPECT_EQ(*worker_->Proven(back), server_there_);
}

// Whoever has the name of an endpoint and says nothing does not keep messages for ever.
TEST_F(ProvedLinksTest, WhoNeverProvesAnythingIsLeft) {
  const int listener = *ListenForLinks(endpoint_);
  const auto out = worker_->Connect(endpoint_, server_there_);
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(worker_->Send(*out, "waits", {}).ok());
  LinkId from = 0;
  Buffers frames;
  EXPECT_TRUE(Turn([&] {
    return !worker_->Receive(&from, &frames) && worker_->state(*out) == ShmLinks::State::kGone;
  }));
  close(listener);
}

TEST_F(ProvedLinksTest, AProofIsForOneExchangeAndOneEndpoint) {
  const auto exchange = [&](const std::string& here, const std::string& there) {
    LinkProof listens(at_server_, here), connects(at_worker_, there, server_there_);
    Note claim, answer, none;
    const Note nonce = listens.First();
    return connects.Take(*nonce, &claim) && listens.Take(*claim, &answer) &&
           connects.Take(*answer, &none) && listens.proven() && connects.proven();
  };
  EXPECT_TRUE(exchange("a", "a"));
  EXPECT_FALSE(exchange("a", "b"));
}

}  // namespace
}  // namespace soapstone::transport
