// PeerWorld: a small decentralised cluster as a value: the shipped peers with vectors of doubles,
// workers that compute one gradient after another, the messages in flight (FIFO per ordered pair),
// and the checks of what must hold. explore.h tries everything; a seeded draw picks at random.
//
// Each gradient is a number of its own, a digit in base 4 (worker process, clock), so that sums
// tell which gradients are in them and how often.
//   D1 collectives: who has applied as many rounds has the same values, bit for bit
//   D2 collectives: at the end every gradient of every live process is in the values once
//   D3 the sum of the values, with parcels in flight, is the sum of the applied gradients (in lock
//      step: at the end); push-sum's weights sum to the number of members
//   D4 collectives differ by one round at most
//   S5 no deadlock: every live process hands in
//   L1 the ledgers of peers, and of what their workers are answered, find nothing where these do
//   not
// Connections are as sim/world/connections.h says; of a link that is lost both ends tell the
// scheduler. Faults void D3 (a lost peer takes its values along), and D2 for who is gone: a round
// that has not ended everywhere is done again without it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "scheduler/broken_links.h"
#include "server/peer/peer.h"
#include "sim/world/connections.h"
#include "wire/message.h"
#include "worker/reply_ledger.h"

namespace soapstone::sim {

// Deliberate bugs around the shipped peer, for tests of the checks.
enum class PeerMutant : uint8_t {
  kNone,
  kDuplicateUnseen,   // a duplicated message gets a fresh sequence number
  kSequencesRestart,  // sequence numbers say nothing
  kStaleRounds,       // parcels of an earlier group pass for this one's
  kHalfMeeting,       // the asker does not take its half of an exchange
  kWeightStays,       // push-sum sends values without their weight
  kNoState,           // newcomers get no values
  kLostParcel,        // the second parcel of every channel is lost
  kEarlyHandIn,       // who is finished counts all others as finished
  kGradientLost,      // the first gradient of process 0 is empty
  kGradientTwice,     // and goes in twice
  kNoResume,          // what a connection that broke had under way is not sent again
  kNoLinkLost,        // who cannot reach another says so to nobody
  kStretchesMixed,    // a parcel of one stretch passes for one of the other
  kPartLost,          // of the first gradient of process 0 the second part is empty
  kForgetfulPrint,    // worlds are compared without what peers keep
};

struct PeerWorldOptions {
  std::string policy = "allreduce";
  uint32_t workers = 2;
  Clock clocks = 2;
  uint64_t elements = 3;
  // All-reduce: the model in two stretches, of a parameter each of so many elements, whose
  // gradients are there one after the other.
  bool two_stretches = false;
  uint32_t crashes = 0, leaves = 0, joins = 0, duplicates = 0;
  uint32_t breaks = 0;  // a connection breaks with what is under way, and is made again later
  uint32_t losses = 0;  // two processes cannot reach one another any more
  // Processes are told of before they can be reached: what comes before their birth is lost.
  bool births = false;
  server::StoreFault store_fault = server::StoreFault::kNone;  // of the vectors
  // Whether the ledgers are believed too (L1): of each peer, and of what its worker is answered.
  bool ledgers = true;
  bool hangs_only = false;  // of what is broken only a deadlock counts
  PeerMutant mutant = PeerMutant::kNone;
};

class PeerWorld {
 public:
  struct Choice {
    enum class Kind : uint8_t {
      kDeliver,
      kCompute,
      kBirth,
      kCrash,
      kNotice,
      kLeave,
      kJoin,
      kDuplicate,
      kBreak,   // the connection of `from` and `to` (as in the channels' keys): nothing of it
      kResume,  // arrives until it is made again, and goes on where it was (wire/session.h)
      kLose,    // it cannot be: what is under way is gone, both ends tell the scheduler
      kSettle   // the scheduler counts one of them out, by its rule (scheduler/broken_links.h)
    };
    Kind kind{};
    uint32_t from = 0;
    uint32_t to = 0;
    friend auto operator<=>(const Choice&, const Choice&) = default;
  };

  static absl::StatusOr<PeerWorld> Make(const PeerWorldOptions& options);

  std::vector<Choice> Enabled() const;
  void Do(const Choice& choice);
  bool Finished() const;
  const std::optional<std::string>& Violation() const { return violation_; }
  std::string Describe(const Choice& choice) const;
  void AddTo(Fingerprint* f) const;

  // For closer looks, after the end: values by live process.
  std::vector<std::vector<double>> Values() const;

 private:
  static constexpr uint32_t kScheduler = 0;  // processes are 1 + index in the channels' keys

  struct Process {
    WorkerId rank{};
    server::Peer peer;
    worker::ReplyLedger replies;
    Epoch admitted = 0;
    bool original = true;
    bool born = true;
    bool gone = false;
    bool crashed = false;
    bool noticed = false;
    bool expelled = false;  // counted out alive: it acts until it is told, and counts no more
    bool leaving = false;
    bool started = false;
    bool handed_in = false;
    double handed_weight = 0;
    bool Counts() const { return !gone && !expelled; }
    std::optional<Clock> computing;
    bool half_pushed = false;  // of two stretches
    std::vector<Clock> computed;
    double applied = 0;  // push-sum: sum of its digits, each times its weight then
  };

  explicit PeerWorld(PeerWorldOptions options) : options_(std::move(options)) {}
  void AddProcess(WorkerId rank, bool original);
  void PublishRoster();
  std::optional<uint32_t> ProcessOf(WorkerId rank) const;
  void Deliver(uint32_t from, uint32_t to);
  void Duplicate(uint32_t from, uint32_t to);
  void Take(uint32_t index, wire::Message message);
  void Flush(uint32_t index, wire::Outbox* outbox);
  void ToWorker(uint32_t index, const wire::Message& reply);
  void Pull(uint32_t index, Clock clock);
  void Compute(uint32_t index);
  void Remove(uint32_t index);
  // Of a vector.
  uint64_t Elements() const { return options_.elements * (options_.two_stretches ? 2 : 1); }
  void PushPart(uint32_t index, Clock clock, uint32_t bucket);
  // How often a value has that gradient.
  uint64_t TimesIn(double value, uint32_t index, Clock clock) const;
  double DigitOf(uint32_t index, Clock clock) const;
  uint32_t Live() const;
  void AddLinkChoices(std::vector<Choice>* choices) const;
  void Lose(uint32_t a, uint32_t b);
  void SettleLinks();
  void Check();
  template <typename How>
  bool ExchangesBy() const {
    return std::holds_alternative<How>(traits_.peers());
  }
  void CheckSum();
  void CheckEnd();
  void Fail(std::string what) {
    if (options_.hangs_only && !what.starts_with("S5")) return;
    if (!violation_.has_value()) violation_ = std::move(what);
  }

  PeerWorldOptions options_;
  consistency::PolicyTraits traits_;
  std::shared_ptr<const wire::Layout> layout_;
  std::vector<Process> processes_;
  Connections connections_;
  scheduler::BrokenLinks links_to_settle_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> delivered_;  // kLostParcel
  Epoch epoch_ = 0;
  bool members_changed_ = false;
  bool duplicated_ = false;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
