#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_runs.h"
#include "apps/cli/job_source.h"
#include "apps/cli/launcher.h"
#include "apps/cli/train_defaults.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/output_thread.h"
#include "apps/loop/recorder.h"
#include "apps/node/curve_parts.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/memory/memory_limit.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "checkpoint/disk.h"
#include "checkpoint/folder.h"
#include "checkpoint/folder_lock.h"
#include "cluster/iteration_trace.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "cluster/recording.h"
#include "cluster/resume/ran_before.h"
#include "cluster/resume/resume.h"
#include "cluster/team/job_strategy.h"
#include "security/job_keys.h"

namespace soapstone::apps {
namespace {

constexpr char kRuns[] = "runs";
constexpr uint64_t kNeverDue = uint64_t{1} << 40;  // clocks
constexpr Nanos kAtOnce = kSecond / 2;             // a table is written to who reads

absl::StatusOr<std::string> ProgramDir() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string dir = self.parent_path().string();
  for (const char* role : {"scheduler", "server", "worker"}) {
    const std::string program = absl::StrCat(dir, "/soapstone-", role);
    if (access(program.c_str(), X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat(program, " is missing: build all of apps/"));
    }
  }
  return dir;
}

// What the children read: the job as it was checked. The launcher keeps their logs.
absl::Status WriteJobFile(const std::string& folder, wire::JobConfig config) {
  const std::string path = absl::StrCat(folder, "/job.textproto");
  ToFolder(folder, &config);
  config.mutable_output()->clear_log_dir();
  if (config.cluster().scheduler().empty()) {
    config.mutable_cluster()->set_scheduler("tcp://127.0.0.1:0");
  }
  const absl::Status written = WriteWholeFile(path, JobText(config));
  if (written.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("output.log_dir: ", written.message()));
}

// `code`, or kExitConfig where that was well and there is nothing to replay.
int SayRecorded(const std::string& dir, int code, Console* console) {
  const absl::StatusOr<sim::Recording> recording = sim::ReadRecording(dir);
  if (recording.ok()) {
    console->Line(absl::StrCat("\nrecorded ", WithCommas(recording->events()), " events of ",
                               recording->actors.size(), " actors, ", Bytes(recording->bytes),
                               ": soapstone replay ", dir));
    return code;
  }
  const std::string line =
      absl::StrCat("output.record_path: not recorded: ", recording.status().message());
  if (code == kExitOk) return SayConfigError(kSoapstone, absl::InvalidArgumentError(line));
  console->Line(line);
  return code;
}

// Before any of them starts: each child has the key of its role.
absl::Status CheckKeys(const wire::Cluster& cluster, const std::string& folder) {
  SOAP_RETURN_IF_ERROR(CheckSecurity(cluster, !folder.empty()));
  if (folder.empty()) return absl::OkStatus();
  decltype(security::JobKeys::public_keys) first = {};
  for (const security::KeyRole role : security::kKeyRoles) {
    SOAP_ASSIGN_OR_RETURN(const security::JobKeys keys, security::ReadJobKeys(folder, role));
    if (role == security::kKeyRoles[0]) first = keys.public_keys;
    if (keys.public_keys == first) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--key: ", folder, ": ", security::NameOf(role), ".key and ",
        security::NameOf(security::kKeyRoles[0]), ".key are not of one `soapstone keygen`"));
  }
  return absl::OkStatus();
}

// Of a run that has ended well.
absl::Status WriteCurve(const wire::JobConfig& config, Console* console) {
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, PrepareJob(config));
  SOAP_ASSIGN_OR_RETURN(const RealCurve curve, JoinCurve(*job));
  if (curve.replicas.has_value()) {
    console->Line(absl::StrFormat("  %-22s least %.4f, median %.4f, greatest %.4f",
                                  "of the replicas", curve.replicas->min, curve.replicas->median,
                                  curve.replicas->max));
  }
  const std::string& path = config.output().curve_path();
  const absl::Status written = WriteWholeFile(path, experiment::CurveCsv(curve.points));
  if (!written.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("output.curve_path: ", written.message()));
  }
  console->Line(absl::StrFormat("  %-22s %s", "curve", path));
  return absl::OkStatus();
}

// Nothing waits for this process any more when it says the result. Whoever reads may be slow: a
// signal ends it then, but one that came after the job's end does not cut its table off.
absl::Status FinishOutput(int code, OutputThread* output) {
  absl::Status said = output->Finish(kAtOnce);
  if (!absl::IsDeadlineExceeded(said)) return said;  // signals stay blocked to the process's end
  const sigset_t signals = StopSignals();
  const timespec now = {};
  while (code == kExitOk && sigtimedwait(&signals, nullptr, &now) > 0) {
  }
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  const bool stopped = code == kExitInterrupted || code == kExitTerminated;
  return output->Finish((stopped ? 2 : 20) * kSecond);
}

// Its folder of checkpoints is nobody else's, and the one that it goes on from is whole.
absl::Status CheckCheckpointFolder(const Job& job) {
  const std::string& folder = job.config.output().checkpoint_path();
  if (folder.empty()) return absl::OkStatus();
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  const absl::Status mine = checkpoint::ClocksIn(disk.get(), folder).status();
  if (!mine.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("output.checkpoint_path: ", mine.message()));
  }
  const absl::Status lock = checkpoint::FolderLock::Take(folder).status();
  if (absl::IsFailedPrecondition(lock)) {
    return absl::InvalidArgumentError(absl::StrCat("output.checkpoint_path: ", lock.message()));
  }
  return job.first_clock == 0 ? absl::OkStatus() : VerifyFirstCheckpoint(job, disk.get());
}

// What was not finished when a server ended goes. Not where another job has begun there since.
void TidyCheckpoints(const std::string& folder) {
  if (folder.empty()) return;
  const absl::StatusOr<checkpoint::FolderLock> lock = checkpoint::FolderLock::Take(folder);
  if (!lock.ok()) return;
  checkpoint::RemoveUnfinished(checkpoint::RealDisk().get(), folder).IgnoreError();
}

// Checkpoints that the job did not ask for go when it is done with them.
void RemoveOwnCheckpoints(const std::string& folder, bool finished) {
  const absl::StatusOr<std::vector<int64_t>> clocks =
      checkpoint::ClocksIn(checkpoint::RealDisk().get(), folder);
  if (!clocks.ok() || (!finished && !clocks->empty())) return;
  std::error_code error;
  std::filesystem::remove_all(folder, error);
}

// What it writes can be written, and what it keeps in memory fits. `all_here`: no process of it is
// on another host.
absl::Status CheckRun(const Job& job, bool all_here) {
  SOAP_RETURN_IF_ERROR(CheckOutputs(job.config, {.model = all_here}));
  SOAP_RETURN_IF_ERROR(CheckCheckpointFolder(job));
  if (all_here) SOAP_RETURN_IF_ERROR(CheckParametersFit(job, AvailableMemory()));
  return CheckNoRecording(job.config);
}

// CheckOutputsApart, also of what is written to the folder of logs.
absl::Status CheckFilesApart(const wire::JobConfig& config, const NodeFlags& flags) {
  const std::string& folder = config.output().log_dir();
  std::vector<FileWritten> written;
  for (const char* name : {"job.textproto", "ledger.json", "loss.csv", "confusion.csv", "http",
                           "scheduler.log", "server-0.log", "worker-0.log"}) {
    if (!folder.empty()) written.push_back({"output.log_dir", absl::StrCat(folder, "/", name)});
  }
  return CheckOutputsApart(config, flags, std::move(written));
}

absl::Status MakeFolder(const char* field, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": cannot make ", path, ": ", error.message()));
}

// Files that are of one run of a job's processes, where it may have several.
absl::Status CheckOneRun(const char* flag, const char* how, const wire::Output& output) {
  for (const auto& [field, path] :
       {std::pair("record_path", output.record_path()),
        std::pair("trace_path", output.trace_path()), std::pair("curve_path", output.curve_path()),
        std::pair("timeline_path", output.timeline_path())}) {
    if (path.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, ": output.", field,
                                                   " is of one run, and a job that is ", how,
                                                   " has several: leave it out"));
  }
  return absl::OkStatus();
}

// --restarts: what a run leaves is not the next one's.
absl::Status CheckRestarts(const NodeFlags& flags, const wire::JobConfig& config, bool here) {
  if (flags.restarts == 0) return absl::OkStatus();
  if (!here || flags.replan) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--restarts does not go with ", here ? "--replan" : "--hosts", ": leave one of them out"));
  }
  if (config.output().checkpoint_path().empty()) {
    return absl::InvalidArgumentError(
        "--restarts goes on from checkpoints: give --checkpoint=DIR too");
  }
  return CheckOneRun("--restarts", "started again", config.output());
}

// --strategy=auto and --replan go with what runs here, and their flags with them.
absl::Status CheckFinding(const NodeFlags& flags, const wire::JobConfig& config, bool can_find) {
  if (flags.replan && !can_find) {
    return absl::InvalidArgumentError(
        "--replan is for jobs on this machine alone, not for --hosts: leave it out");
  }
  if (flags.replan) SOAP_RETURN_IF_ERROR(CheckOneRun("--replan", "planned anew", config.output()));
  if (flags.replan && config.cluster().strategy().empty()) {
    return absl::InvalidArgumentError(
        "--replan is of jobs with a strategy: give --strategy=FILE, or --strategy=auto");
  }
  if (IsAutoStrategy(config)) {
    if (can_find) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "cluster.strategy: auto is found for this machine alone, not for --hosts: plan first "
        "(soapstone plan --config=JOB --machine=FILE --for_workers --output=STRATEGY) and give "
        "--strategy=STRATEGY");
  }
  const char* const given = !flags.machine_path.empty() && !flags.replan ? "--machine"
                            : flags.plan_budget_s.has_value()            ? "--plan_budget"
                                                                         : nullptr;
  if (given == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(given, " is of --strategy=auto: leave it out, or take that"));
}

// Before anything is done: what the flags ask for can be.
absl::Status CheckAsked(const NodeFlags& flags, const wire::JobConfig& config, bool can_find) {
  SOAP_RETURN_IF_ERROR(CheckRestarts(flags, config, flags.hosts_path.empty()));
  SOAP_RETURN_IF_ERROR(CheckFinding(flags, config, can_find));
  SOAP_RETURN_IF_ERROR(CheckKeys(config.cluster(), flags.key));
  if (!flags.check || !config.output().log_dir().empty()) return absl::OkStatus();
  return CheckFolderCanBeMade(kRuns);
}

// --print_config and --check. A strategy that is to be found is printed as that; what is checked is
// the job without one.
int PrintOrCheckTrain(NodeFlags flags, wire::JobConfig config, Hosts* hosts) {
  if (IsAutoStrategy(config)) {
    if (flags.print_config) std::cout << JobText(config);
    flags.print_config = false;
    config = WithoutStrategy(std::move(config));
  }
  const int code = PrintOrCheck(kSoapstone, flags, config, [hosts](const Job& job) {
    return CheckRun(job, hosts == nullptr);
  });
  return code == kExitOk && flags.check && hosts != nullptr ? hosts->Open(config) : code;
}

}  // namespace

// "runs/20260131-235959", or with the process id behind it when that exists already.
std::string DefaultLogDir() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "/%Y%m%d-%H%M%S", &parts);
  const std::string folder = absl::StrCat(kRuns, text);
  return std::filesystem::exists(folder) ? absl::StrCat(folder, "-", getpid()) : folder;
}

absl::StatusOr<LauncherOptions> PrepareLaunch(wire::JobConfig config, Hosts* hosts) {
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, PrepareJob(config));
  if (!config.output().checkpoint_path().empty()) {
    // Its processes are told from where: none of them looks for itself.
    config.mutable_output()->set_resume(absl::StrCat(job->first_clock));
  }
  const wire::Output& output = config.output();
  SOAP_RETURN_IF_ERROR(CheckEndpoint(config.cluster()));
  SOAP_RETURN_IF_ERROR(CheckRun(*job, hosts == nullptr));
  if (!config.output().record_path().empty()) SOAP_RETURN_IF_ERROR(CheckRecordingFolder(config));
  if (!output.curve_path().empty()) RemoveCurveParts(*job);
  LauncherOptions options;
  options.hosts = hosts;
  SOAP_ASSIGN_OR_RETURN(options.program_dir, ProgramDir());
  options.log_dir = config.output().log_dir();
  if (options.log_dir.empty()) options.log_dir = DefaultLogDir();
  SOAP_RETURN_IF_ERROR(MakeFolder("output.log_dir", options.log_dir));
  if (!output.checkpoint_path().empty()) {
    SOAP_RETURN_IF_ERROR(MakeFolder("output.checkpoint_path", output.checkpoint_path()));
  }
  std::remove(absl::StrCat(options.log_dir, "/http").c_str());  // of a job before
  if (!output.timeline_path().empty() && hosts == nullptr) {
    SOAP_RETURN_IF_ERROR(MakeFolder("output.timeline_path", output.timeline_path()));
  }
  SOAP_RETURN_IF_ERROR(WriteJobFile(options.log_dir, config));
  options.config = std::move(config);
  options.notes = job->notes;
  SOAP_ASSIGN_OR_RETURN(options.servers, ServerProcesses(options.config, job->specs));
  if (job->specs.stragglers.fails()) {
    // Before it was counted out, its place is taken.
    const wire::Cluster& cluster = options.config.cluster();
    options.successor_after =
        std::max(job->specs.stragglers.down_ns(),
                 NanosOf(cluster.heartbeat_timeout_s() + 2 * cluster.heartbeat_s()));
  }
  return options;
}

namespace {

// A checkpoint is what it goes on from by another strategy. Where it names no folder for them it
// has one beside its logs, with none but those. True: it has got that.
bool GiveCheckpoints(wire::JobConfig* config) {
  wire::Output& output = *config->mutable_output();
  if (output.log_dir().empty()) output.set_log_dir(DefaultLogDir());
  const bool asks = !output.resume().empty() || output.checkpoint_every() > 0;
  if (!output.checkpoint_path().empty() || asks) return false;  // the latter is refused
  output.set_checkpoint_path(output.log_dir() + "/replan");
  output.set_checkpoint_every(kNeverDue);
  output.set_resume("0");
  return true;
}

void SayVariables(const NodeFlags& flags) {
  for (const std::string& variable : flags.variables) {
    std::cerr << kSoapstone << ": from the environment: " << variable << "\n";
  }
}

// Before it runs. Returns kExitOk, or the code to end with.
absl::StatusOr<int> BeginReplanning(Replanner* replanner, bool own_checkpoints,
                                    LauncherOptions* options) {
  absl::StatusOr<int> prepared = replanner->Prepare(options->config);
  if (!prepared.ok() || *prepared != kExitOk) {
    const std::string& folder = options->config.output().checkpoint_path();
    if (own_checkpoints) RemoveOwnCheckpoints(folder, false);
    return prepared;
  }
  options->replanner = replanner;
  replanner->Begin(NodeLoop::Now(), options->config, options->log_dir);
  return kExitOk;
}

// What its processes wrote in parts.
absl::Status JoinOutputs(const wire::JobConfig& job, bool finished, Console* console) {
  const wire::Output& output = job.output();
  if (!output.trace_path().empty()) {
    SOAP_RETURN_IF_ERROR(JoinTraceParts(output.trace_path(), job.cluster().workers()));
  }
  if (!finished || output.curve_path().empty()) return absl::OkStatus();
  return WriteCurve(job, console);
}

}  // namespace

int Train(const NodeFlags& flags, Hosts* hosts, const Planners& planners) {
  std::string chosen;
  absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags(flags, &chosen);
  if (!config.ok()) return SayConfigError(kSoapstone, config.status());
  const absl::Status asked = CheckAsked(flags, *config, planners.finder && hosts == nullptr);
  if (!asked.ok()) return SayConfigError(kSoapstone, asked);
  if (IsAutoStrategy(*config)) TakeMicroBatches(RanBefore(*config), &*config);
  if (hosts != nullptr) {
    const absl::Status settled = hosts->Settle(&*config);
    if (!settled.ok()) return SayConfigError(kSoapstone, settled);
  }
  const absl::Status apart = CheckFilesApart(*config, flags);
  if (!apart.ok()) return SayConfigError(kSoapstone, apart);
  SayVariables(flags);
  if (flags.check && flags.replan) GiveCheckpoints(&*config);
  if (flags.print_config || flags.check) {
    return PrintOrCheckTrain(flags, *std::move(config), hosts);
  }
  if (IsAutoStrategy(*config)) {
    const absl::StatusOr<int> found = planners.finder(flags, &*config);
    if (!found.ok()) return SayConfigError(kSoapstone, found.status());
    if (*found != kExitOk) return *found;
  }
  const bool replans = flags.replan && !config->cluster().strategy().empty();
  const bool own_checkpoints = replans && GiveCheckpoints(&*config);
  absl::StatusOr<LauncherOptions> options = PrepareLaunch(*config, hosts);
  if (!options.ok()) return SayConfigError(kSoapstone, options.status());
  if (!chosen.empty()) std::cerr << kSoapstone << ": " << chosen << "\n";
  SayNotes(kSoapstone, options->notes);
  options->key = flags.key;
  options->restarts = flags.restarts;
  const int opened = hosts == nullptr ? kExitOk : hosts->Open(options->config);
  if (opened != kExitOk) return opened;
  if (replans) {
    const absl::StatusOr<int> begun =
        BeginReplanning(planners.replanner, own_checkpoints, &*options);
    if (!begun.ok()) return SayConfigError(kSoapstone, begun.status());
    if (*begun != kExitOk) return *begun;
  }
  ForgetNodeVariables();  // the children's job file has them
  OutputThread output(&std::cout, STDOUT_FILENO);
  Console console(&std::cout, ConsoleOf(flags));
  options->http = flags.http.empty() ? "127.0.0.1:0" : flags.http;
  options->http_name = flags.http_name;
  options->utf8 = SpeaksUtf8([](const char* name) { return std::getenv(name); });
  wire::JobConfig job = options->config;
  const std::string& trace_path = job.output().trace_path();
  if (!trace_path.empty()) RemoveTraceParts(trace_path, job.cluster().workers());
  const std::string& record_path = job.output().record_path();
  bool finished = false;
  int code = RunToItsEnd(*std::move(options), &console, &job, &finished);
  TidyCheckpoints(job.output().checkpoint_path());
  if (own_checkpoints) RemoveOwnCheckpoints(job.output().checkpoint_path(), finished);
  if (!record_path.empty()) code = SayRecorded(record_path, code, &console);
  const absl::Status joined = JoinOutputs(job, finished, &console);
  if (!joined.ok()) code = SayConfigError(kSoapstone, joined);
  const absl::Status said = FinishOutput(code, &output);
  if (said.ok()) return code;
  const int unsaid = SayConfigError(kSoapstone, said);
  return code == kExitOk && absl::IsUnavailable(said) ? unsaid : code;
}

}  // namespace soapstone::apps
