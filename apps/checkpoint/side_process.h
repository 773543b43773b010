// SideProcess: a command of `soapstone` that runs beside a job, with less priority than it. Started
// by the scheduler's shell to look at checkpoints. If it fails the job does not.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/checkpoint/evaluation.h"
#include "base/ids.h"

namespace soapstone::apps {

// The command beside the program that runs; its path. Error: NotFound, one line.
absl::StatusOr<std::string> CommandBeside();

// Invariants
//  1. It ends with the thread that started it, whatever ends that.
//  2. It ends when it has used no processor for `idle_max`, and after `all_max` in any case.
// One thread.
class SideProcess final : public Evaluation {
 public:
  struct Spec {
    std::vector<std::string> command;  // [0]: the program's path
    Nanos idle_max = 60 * kSecond;
    Nanos all_max = 3600 * kSecond;
  };
  // Error: Unavailable, it cannot be started.
  static absl::StatusOr<std::unique_ptr<SideProcess>> Start(Spec spec, Nanos now);
  ~SideProcess() override;  // kills it if it still runs
  SideProcess(const SideProcess&) = delete;
  SideProcess& operator=(const SideProcess&) = delete;

  // Its standard output. Error: Unavailable: the last line of its standard error, or how it ended.
  std::optional<absl::StatusOr<std::string>> Poll(Nanos now) override;

 private:
  explicit SideProcess(Spec spec) : spec_(std::move(spec)) {}
  uint64_t Ticks() const;

  Spec spec_;
  pid_t pid_ = -1;  // -1: it has ended
  int out_ = -1, err_ = -1;
  std::string said_, complained_;
  Nanos began_ = 0;
  Nanos worked_ = 0;  // when it had last used the processor
  uint64_t ticks_ = 0;
  std::string killed_for_;
};

}  // namespace soapstone::apps
