// Readers: what each worker has asked to read of a shard, since when it waits, and what its latest
// read held. A worker asks with a pull; a subscriber (policy essp) with its clock, and is sent the
// values unasked; for the values after the last clock both ask with a final pull. The shard alone
// calls it, and answers. A value: copied with its shard, keeps no pointers.
//
// Invariants
//  1. Of each worker at most one pull is in hand and at most one final pull waits: the newest.
//  2. A worker waits from its newest pull on; a subscriber from its newest clock on.
//  3. StalenessOf a bucket is the number of OnUpdated for it since the worker's OnAnswered of that
//     clock, or its latest where that is not among the last own_lag + 1; of all where it was never
//     answered, or is another process now.
//  4. A subscriber is sent nothing for the last clock: there is no step to read for.
//  5. WaitsSince a worker is empty exactly where nothing that it has asked for is owed to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "wire/message.h"
#include "wire/message_image.h"

namespace soapstone::server {

struct ReadersOptions {
  uint32_t bucket_count = 0;
  Clock final_clock = 0;
  bool subscribed = false;
  Clock own_lag = 0;  // clocks by which a worker reads ahead of what it has pushed, at most
};

class Readers {
 public:
  explicit Readers(const ReadersOptions& options)
      : final_clock_(options.final_clock),
        subscribed_(options.subscribed),
        reads_max_(static_cast<size_t>(options.own_lag) + 1),
        versions_(options.bucket_count) {}

  // The message's worker pulls, or has completed a clock.
  void OnPull(Nanos now, const wire::Message& pull) { OnAsked(now, pull); }
  void OnClock(Nanos now, const wire::Message& clock) {
    if (subscribed_) OnAsked(now, clock);
    if (subscribed_ && clock.clock >= final_clock_) Of(clock.worker).waits = false;
  }
  // `ticket` is the worker's pull in hand from now on. Returns the former one, which may have been
  // answered; 0: none.
  consistency::Ticket Replace(WorkerId worker, consistency::Ticket ticket) {
    return std::exchange(Of(worker).pull, ticket);
  }
  // Stands for the pull of a subscriber at `clock`; none after the last.
  std::optional<wire::Message> PullOfSubscriber(WorkerId worker, Clock clock) const;

  void KeepFinal(wire::Message pull) {
    final_pulls_.insert_or_assign(pull.worker, std::move(pull));
  }
  bool final_waits() const { return !final_pulls_.empty(); }
  // By worker; none waits any more.
  std::map<WorkerId, wire::Message> TakeFinal() { return std::exchange(final_pulls_, {}); }

  // The bucket has had one more update.
  void OnUpdated(BucketId bucket) { ++versions_[Index(bucket)]; }
  // The worker reads the buckets as they are. Tells the reply how long that took.
  void OnAnswered(Nanos now, wire::Message* reply);
  uint64_t StalenessOf(WorkerId worker, Clock clock, BucketId bucket) const;
  // The worker's pull is refused: it is told so, and waits no more.
  void OnRefused(WorkerId worker) { Of(worker).waits = false; }
  // Since when the worker waits for values; empty: it does not.
  std::optional<Nanos> WaitsSince(WorkerId worker) const;
  // Up to the last worker that has asked.
  size_t size() const { return readers_.size(); }

  // The worker's rank is vacant, or another process's. Returns its pull in hand, as Replace.
  consistency::Ticket Forget(WorkerId worker);
  // Up to which rank workers have asked, and who waits with a final pull.
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(Fixed(self.versions_), self.readers_, self.final_pulls_);
  }

 private:
  struct Read {
    Clock clock = 0;
    std::vector<uint64_t> versions;  // by bucket
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.clock, self.versions);
    }
  };
  struct Reader {
    consistency::Ticket pull{};  // its latest, if any
    Clock asked = -1;            // for which clock; subscribed: its own
    Nanos asked_at = 0;          // when that came first: what is owed is asked for again
    Nanos queued_ns = 0;         // and how long it had waited for us
    bool waits = false;          // what it asked for is owed to it
    std::vector<Read> reads;     // its latest, in turns
    size_t next_read = 0;        // whose turn it is
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.pull, self.asked, self.asked_at, self.queued_ns, self.waits, self.reads,
            self.next_read);
    }
  };
  Reader& Of(WorkerId worker);
  void OnAsked(Nanos now, const wire::Message& message);

  Clock final_clock_;
  bool subscribed_;
  size_t reads_max_;
  std::vector<uint64_t> versions_;  // by bucket: updates
  std::vector<Reader> readers_;     // by worker index, up to the last that has asked
  std::map<WorkerId, wire::Message> final_pulls_;
};

}  // namespace soapstone::server
