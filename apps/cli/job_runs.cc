#include "apps/cli/job_runs.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_source.h"
#include "apps/loop/node_loop.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "checkpoint/disk.h"
#include "checkpoint/folder.h"

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

// The newest clock of what looks like a checkpoint; kNoClock: there is none.
Clock NewestIn(const std::string& folder) {
  const auto clocks = checkpoint::ClocksIn(checkpoint::RealDisk().get(), folder);
  return clocks.ok() && !clocks->empty() ? clocks->back() : kNoClock;
}

// Of one that is started again where it has lost a process: so many times without a checkpoint in
// between, for what is lost each time at the same place is no accident.
int RunAgainAfterLosses(LauncherOptions options, Console* console, wire::JobConfig* config,
                        bool* finished) {
  const std::string folder = config->output().checkpoint_path();
  const std::string logs = options.log_dir;
  Clock newest = NewestIn(folder);
  uint32_t without = 0;  // starts since that one
  for (uint32_t again = 1;; ++again) {
    const LauncherOptions same = options;
    Launcher launcher(std::move(options), console);
    const int code = launcher.Run();
    *finished = launcher.finished();
    if (code != kExitPeerLost || CodeOfPendingStop() != kExitOk) return code;
    if (const Clock now = NewestIn(folder); now > newest) {
      newest = now;
      without = 0;
    }
    if (++without > same.restarts) {
      console->Line(absl::StrCat("--restarts: ", same.restarts, " of ", same.restarts,
                                 " without a new checkpoint; its logs are in ", same.log_dir));
      return code;
    }
    config->mutable_output()->set_resume("auto");
    config->mutable_output()->set_log_dir(absl::StrCat(logs, "/restart-", again));
    absl::StatusOr<LauncherOptions> next = PrepareLaunch(*config);
    if (!next.ok()) return SayConfigError(kSoapstone, next.status());
    TakeOver(same, &*next);
    SayNotes(kSoapstone, next->notes);
    console->Line(absl::StrCat("--restarts: a process was lost; from clock ",
                               next->config.output().resume(), ", start ", without, " of ",
                               same.restarts,
                               " without a new checkpoint; the logs of the run before "
                               "are in ",
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
