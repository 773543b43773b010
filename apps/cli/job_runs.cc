#include "apps/cli/job_runs.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_source.h"
#include "apps/loop/node_loop.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "checkpoint/disk.h"
#include "checkpoint/folder.h"
#include "glog/logging.h"

namespace soapstone::apps {
namespace {

// What is the launcher's own, whatever the run.
void TakeOver(const LauncherOptions& before, LauncherOptions* next) {
  next->key = before.key;
  next->http = before.http;
  next->http_name = before.http_name;
  next->utf8 = before.utf8;
  next->replanner = before.replanner;
  next->restarts = before.restarts;
}

// A job that has stopped, from its checkpoint: `config` has the strategy that was found, or for the
// workers that stay. Where that of `before` runs and this does not, by that.
absl::StatusOr<LauncherOptions> PrepareNext(const LauncherOptions& before, bool are_fewer,
                                            Console* console, wire::JobConfig* config) {
  // From the stop's own checkpoint, or not at all: an earlier one would be no stop.
  const std::string& folder = config->output().checkpoint_path();
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> clocks,
                        checkpoint::ClocksIn(checkpoint::RealDisk().get(), folder));
  const int64_t clock = clocks.empty() ? 0 : clocks.back();
  config->mutable_output()->set_resume(absl::StrCat(clock));
  absl::StatusOr<LauncherOptions> next = PrepareLaunch(*config);
  if (!next.ok() && !are_fewer) {
    console->Line(absl::StrCat("--replan: what was found does not run: ", next.status().message(),
                               "; going on as before"));
    config->mutable_cluster()->set_strategy(before.config.cluster().strategy());
    next = PrepareLaunch(*config);
  }
  SOAP_RETURN_IF_ERROR(next.status());
  TakeOver(before, &*next);
  SayNotes(kSoapstone, next->notes);
  const std::string& strategy = config->cluster().strategy();
  console->Line(
      absl::StrCat("--replan: going on from clock ", clock,
                   strategy.empty() ? ", by one worker" : absl::StrCat(" by ", strategy)));
  return next;
}

// Of a job that is planned anew.
int RunPlannedAnew(LauncherOptions options, Console* console, wire::JobConfig* config,
                   bool* finished) {
  for (;;) {
    Replanner* const replanner = options.replanner;
    const LauncherOptions same = options;
    Launcher launcher(std::move(options), console);
    const int code = launcher.Run();
    *finished = launcher.finished();
    std::vector<uint32_t> leaving;
    if (launcher.replanned() && launcher.result().has_value()) leaving = launcher.result()->leaving;
    // What has been trained is there, of a job that names no folder too.
    const auto stays = [console, &folder = config->output().checkpoint_path()](int code) {
      const auto clocks = checkpoint::ClocksIn(checkpoint::RealDisk().get(), folder);
      const bool any = clocks.ok() && !clocks->empty();
      if (code != kExitOk && any) {
        console->Line(absl::StrCat("--replan: go on with --checkpoint=", folder, " --resume=auto"));
      }
      return code;
    };
    const absl::StatusOr<bool> goes_on = replanner->End(leaving, config);
    if (!goes_on.ok()) {
      console->Line(absl::StrCat("--replan: nothing was found for the workers that stay: ",
                                 goes_on.status().message()));
      const int told = CodeOfPendingStop();
      return stays(told != kExitOk ? told : code);
    }
    if (!launcher.replanned() || !*goes_on) return stays(code);
    absl::StatusOr<LauncherOptions> next = PrepareNext(same, !leaving.empty(), console, config);
    if (!next.ok()) {
      stays(kExitConfig);
      return SayConfigError(kSoapstone, next.status());
    }
    options = *std::move(next);
    replanner->Begin(NodeLoop::Now(), *config, options.log_dir);
  }
}

// The checkpoints of a job that is started again: those that its own runs have written. The folder
// may have others, which it was told not to go on from (--resume=CLOCK), until it writes its first.
class OwnCheckpoints {
 public:
  // The first run begins at `first`.
  OwnCheckpoints(std::string folder, Clock first) : folder_(std::move(folder)), first_(first) {
    for (const auto& [clock, session] : All()) former_.insert({clock, session});
  }

  // Where the next run begins: the newest of them that is whole, or where the first run began.
  Clock Newest(Console* console) const {
    const std::vector<std::pair<Clock, uint64_t>> all = All();
    for (auto at = all.rbegin(); at != all.rend(); ++at) {
      if (former_.contains(*at)) continue;
      const auto manifest = checkpoint::ReadManifest(disk_.get(), folder_, at->first);
      const std::vector<std::string> faults =
          manifest.ok() ? checkpoint::FaultsOf(disk_.get(), folder_, *manifest)
                        : std::vector{std::string(manifest.status().message())};
      if (faults.empty()) return at->first;
      console->Line(
          absl::StrCat("--restarts: checkpoint ", at->first, " passed over: ", faults.front()));
    }
    return first_;
  }

 private:
  // Clock and session of each that has a manifest, ascending.
  std::vector<std::pair<Clock, uint64_t>> All() const {
    std::vector<std::pair<Clock, uint64_t>> all;
    const auto clocks = checkpoint::ClocksIn(disk_.get(), folder_);
    if (!clocks.ok()) return all;
    for (const int64_t clock : *clocks) {
      const auto manifest = checkpoint::ReadManifest(disk_.get(), folder_, clock);
      if (manifest.ok()) all.emplace_back(clock, manifest->session());
    }
    return all;
  }

  std::unique_ptr<checkpoint::Disk> disk_ = checkpoint::RealDisk();
  std::string folder_;
  Clock first_;
  std::set<std::pair<Clock, uint64_t>> former_;
};

// Of one that is started again where it has lost a process: so many times without a checkpoint in
// between, for what is lost each time at the same place is no accident.
int RunAgainAfterLosses(LauncherOptions options, Console* console, wire::JobConfig* config,
                        bool* finished) {
  const std::string logs = options.log_dir;
  Clock newest = 0;
  // What PrepareLaunch has made of --resume.
  CHECK(absl::SimpleAtoi(options.config.output().resume(), &newest));
  const OwnCheckpoints own(config->output().checkpoint_path(), newest);
  uint32_t without = 0;  // starts since the newest
  for (uint32_t again = 1;; ++again) {
    const LauncherOptions same = options;
    Launcher launcher(std::move(options), console);
    const int code = launcher.Run();
    *finished = launcher.finished();
    if (code != kExitPeerLost || CodeOfPendingStop() != kExitOk) return code;
    const Clock from = own.Newest(console);
    if (from > newest) without = 0;
    newest = std::max(newest, from);
    if (++without > same.restarts) {
      console->Line(absl::StrCat("--restarts: ", same.restarts, " of ", same.restarts,
                                 " without a new checkpoint; its logs are in ", same.log_dir));
      return code;
    }
    config->mutable_output()->set_resume(absl::StrCat(from));
    config->mutable_output()->set_log_dir(absl::StrCat(logs, "/restart-", again));
    absl::StatusOr<LauncherOptions> next = PrepareLaunch(*config);
    if (!next.ok()) return SayConfigError(kSoapstone, next.status());
    TakeOver(same, &*next);
    SayNotes(kSoapstone, next->notes);
    console->Line(absl::StrCat("--restarts: a process was lost; from clock ", from, ", start ",
                               without, " of ", same.restarts,
                               " without a new checkpoint; the logs of the run before are in ",
                               same.log_dir));
    options = *std::move(next);
  }
}

}  // namespace

int RunToItsEnd(LauncherOptions options, Console* console, wire::JobConfig* config,
                bool* finished) {
  if (options.replanner != nullptr) {
    return RunPlannedAnew(std::move(options), console, config, finished);
  }
  if (options.restarts > 0) {
    return RunAgainAfterLosses(std::move(options), console, config, finished);
  }
  Launcher launcher(std::move(options), console);
  const int code = launcher.Run();
  *finished = launcher.finished();
  return code;
}

}  // namespace soapstone::apps
