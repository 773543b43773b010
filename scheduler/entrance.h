// Entrance: what becomes of a Hello: whether its process may take part, and at which rank. A value:
// the coordinator asks it, and answers. It sends nothing, and changes no rank.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "scheduler/registry.h"
#include "wire/message.h"

namespace soapstone::scheduler {

struct EntranceOptions {
  uint64_t config_digest = 0;  // a Hello with another one is refused
  // A Hello with another arithmetic than the first of its role is refused.
  bool one_arithmetic = false;
};

// Invariants:
//  1. Who is refused learns nothing of the job that it did not say itself.
//  2. A process that takes the place of another which is dead, and not yet known to be, is let in
//     as soon as it is known: it waits, and is refused for good only where waiting does not help.
//  3. With one_arithmetic the first of each role says what the job's bits are made with, for as
//     long as it runs.
class Entrance {
 public:
  explicit Entrance(EntranceOptions options) : options_(options) {}

  enum class Stage : uint8_t { kRegistering, kRunning, kEnding };  // of the job
  struct Again {  // this very process has been let in before
    wire::Address place;
  };
  struct Out {  // for good (kRefuse), or until its place is free (kWait)
    wire::MessageType type = wire::MessageType::kRefuse;
    wire::Notice why;
  };
  // Not let in; in already; or where it may sit. REQUIRES: its role is server or worker.
  using Verdict = std::variant<Out, Again, wire::Address>;
  // Tells `nodes` where two processes want one rank.
  Verdict Judge(Nanos now, const wire::Hello& hello, Registry* nodes, Stage stage);

  // What who asks for a place is told when the job has ended with `end`: that end, where the same
  // job would come to it again. `same_job`: it asked with this job's digest.
  static Out AfterTheEnd(bool same_job, const wire::Notice& end);

  // For who runs the job: "a worker on rack2 that asked for rank 1 is refused: ...".
  static std::string Told(const wire::Hello& hello, const wire::Notice& why);

  void AddTo(Fingerprint* f) const;

 private:
  struct Arithmetic {
    std::string text;
    wire::Address of;
  };
  bool IsLike(const wire::Hello& hello, wire::Address place);
  Out WhyUnlike(const wire::Hello& hello) const;

  EntranceOptions options_;
  std::map<wire::Role, Arithmetic> arithmetic_;
};

}  // namespace soapstone::scheduler
