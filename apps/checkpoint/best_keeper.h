// BestKeeper: has each checkpoint evaluated on the held-out samples when it is committed, says in
// the folder which is the best so far, and when enough of them were not better. A part of the
// scheduler's shell (checkpoint_keeper.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/checkpoint/evaluation.h"
#include "base/ids.h"
#include "checkpoint/disk.h"
#include "wire/config/checkpoint.pb.h"

namespace soapstone::apps {

// Invariants
//  1. One evaluation at a time, and one that waits: the newest.
//  2. What the folder says is the best is in kept(), and so is what is evaluated or waits.
//  3. An evaluation that fails changes nothing but what is said.
// One thread. `disk` outlives it.
class BestKeeper {
 public:
  struct Options {
    std::string folder;
    bool by_loss = false;     // best is the least loss; else the greatest accuracy
    uint32_t early_stop = 0;  // evaluations in a row that are not better; 0: any number
    // Of the checkpoint of a clock.
    std::function<absl::StatusOr<std::unique_ptr<Evaluation>>(int64_t clock, Nanos now)> evaluate;
  };
  // What became of an evaluation.
  struct Verdict {
    std::string line;  // for the user; empty: there is nothing new
    bool warns = false;
    bool stop = false;  // as many as Options::early_stop were not better
    std::optional<wire::BestCheckpoint> best;
  };

  BestKeeper(checkpoint::Disk* disk, Options options) : disk_(disk), options_(std::move(options)) {}

  // Of a job that goes on from `first`: the best so far, where it is there, of that meaning and not
  // after it; `first` is evaluated if it was not.
  Verdict GoOn(const wire::Checkpoint& first);
  // It is about to be committed: one of that clock that was the best is no more.
  absl::Status BeforeCommit(int64_t clock);
  // It is committed, and waits to be evaluated.
  void Add(int64_t clock, uint64_t session);
  // Clocks that are not to be removed.
  std::vector<int64_t> kept() const;
  // Begins, and looks after, an evaluation.
  std::optional<Verdict> Turn(Nanos now);
  bool busy() const { return running_.has_value() || waiting_.has_value(); }
  // No more of them.
  void Stop();

 private:
  struct Candidate {
    int64_t clock = 0;
    uint64_t session = 0;
  };
  struct Running {
    Candidate of;
    std::unique_ptr<Evaluation> evaluation;
  };
  Verdict Judge(const Candidate& of, const absl::StatusOr<std::string>& said);
  Verdict Failed(const Candidate& of, const std::string& why);
  // Also where it could not be said before.
  std::string Say();

  checkpoint::Disk* disk_;
  Options options_;
  std::optional<wire::BestCheckpoint> best_;
  std::optional<int64_t> said_;  // the clock that the folder says
  std::optional<Candidate> waiting_;
  std::optional<Running> running_;
  bool said_failed_ = false;     // of the last evaluations; once until one is well
  bool said_unwritten_ = false;  // likewise that the folder cannot be told
  bool stopped_ = false;
};

// The figures of `soapstone evaluate --json`. Error: InvalidArgument, it is something else.
absl::StatusOr<wire::BestCheckpoint> FiguresOf(const std::string& json);

}  // namespace soapstone::apps
