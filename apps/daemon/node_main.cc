#include "apps/daemon/node_main.h"

#include <glog/logging.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/cli/console_reports.h"
#include "apps/cli/job_source.h"
#include "apps/cli/node_flags.h"
#include "apps/cli/rank_choice.h"
#include "apps/daemon/listen_choice.h"
#include "apps/daemon/signal_watch.h"
#include "apps/loop/log_output.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/output_thread.h"
#include "apps/loop/recorder.h"
#include "apps/loop/standard_descriptors.h"
#include "apps/node/compute_backend.h"
#include "apps/node/event_reports.h"
#include "apps/node/owner_node.h"
#include "apps/node/scheduler_node.h"
#include "apps/node/server_node.h"
#include "apps/node/status_host.h"
#include "apps/node/wire_limits.h"
#include "apps/node/worker_node.h"
#include "apps/report/process_memory.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "cluster/job.h"
#include "security/process_keys.h"
#include "transport/node/endpoint.h"
#include "transport/node/node_transport.h"

namespace soapstone::apps {
namespace {

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (number == 0) {
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) number = 0;
  }
  return number;
}

// Logs go to standard error and, where asked, to log_dir/<role>-<rank>.log; without a rank yet,
// the process id takes its place.
absl::Status StartLogging(wire::Role role, const RankChoice& rank, const std::string& log_dir) {
  FLAGS_alsologtostderr = true;
  FLAGS_logbuflevel = -1;  // each line at once
  for (const auto level : {google::INFO, google::WARNING, google::ERROR, google::FATAL}) {
    google::SetLogDestination(level, "");
  }
  if (!log_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(log_dir, error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("output.log_dir: cannot make ", log_dir, ": ", error.message()));
    }
    FLAGS_timestamp_in_logfile_name = false;
    const std::string place =
        rank.rank < 0 ? absl::StrCat("pid", getpid()) : absl::StrCat(rank.rank);
    const std::string path =
        absl::StrCat(log_dir, "/", RoleName(role),
                     role == wire::Role::kScheduler ? "" : absl::StrCat("-", place), ".log");
    google::SetLogDestination(google::INFO, path.c_str());
    google::SetLogSymlink(google::INFO, "");
  }
  google::InitGoogleLogging(RoleName(role));
  return absl::OkStatus();
}

security::KeyRole KeyRoleOf(wire::Role role) {
  if (role == wire::Role::kScheduler) return security::KeyRole::kScheduler;
  return role == wire::Role::kServer ? security::KeyRole::kServer : security::KeyRole::kWorker;
}

// Null without --key.
absl::StatusOr<std::shared_ptr<const security::ProcessKeys>> KeysOf(wire::Role role,
                                                                    const NodeFlags& flags) {
  if (flags.key.empty()) return nullptr;
  SOAP_ASSIGN_OR_RETURN(security::JobKeys keys, security::ReadJobKeys(flags.key, KeyRoleOf(role)));
  auto process =
      security::MakeProcessKeys(std::make_shared<const security::JobKeys>(std::move(keys)));
  if (process == nullptr) return absl::InternalError("no randomness for a key of this process");
  return process;
}

// Who may be at the other end, said at each start.
void SaySecurity(const transport::ZmqOptions& options) {
  if (options.keys != nullptr) {
    LOG(INFO) << "secured by key " << security::Fingerprint(options.keys->job->own())
              << ": encrypted between machines, each process in the role and rank of its key";
    return;
  }
  const bool within = options.listen.empty() || absl::StartsWith(options.listen, "ipc://") ||
                      absl::StartsWith(options.listen, "tcp://127.") ||
                      absl::StartsWith(options.listen, "tcp://localhost:");
  LOG_IF(WARNING, !within)
      << "no keys: whoever reaches " << options.listen
      << " can read and bend this job; soapstone keygen --out=keys makes some, "
         "and --key=keys at each process uses them";
}

absl::StatusOr<std::unique_ptr<transport::Transport>> OpenTransport(
    wire::Role role, const NodeFlags& flags, const Job& job,
    std::shared_ptr<const security::ProcessKeys> keys, StatusHost* status) {
  const std::string& scheduler = job.config.cluster().scheduler();
  transport::ZmqOptions options;
  options.keys = std::move(keys);
  options.shared_memory = job.config.cluster().transport() == "auto";
  options.streams = job.config.cluster().transport() != "zeromq";
  options.stream_port = flags.stream_port;
  options.link_timeout = absl::Seconds(job.config.cluster().link_timeout_s());
  options.queue_bytes_max = LinkBytesOf(job);
  LimitToJob(job, &options);
  SOAP_RETURN_IF_ERROR(CheckFrames(job, options));
  if (role == wire::Role::kScheduler) options.listen = scheduler;
  // Workers that keep the parameters among themselves, and those of a team, are reached by each
  // other.
  const bool listens =
      role == wire::Role::kServer ||
      (role == wire::Role::kWorker && (job.specs.policy.decentralised() || job.team != nullptr));
  if (listens) {
    const auto waits = [status] {
      if (status != nullptr) status->Starts(NodeLoop::Now());
    };
    SOAP_ASSIGN_OR_RETURN(
        const ListenChoice choice,
        AwaitListen(flags.bind, scheduler, absl::StrCat(RoleName(role), "-", getpid()),
                    absl::Seconds(job.config.cluster().start_timeout_s()), waits));
    options.listen = choice.listen;
    options.advertise_host = choice.advertise_host;
  }
  SaySecurity(options);
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<transport::Transport> transport,
                        transport::MakeNodeTransport(options));
  if (role != wire::Role::kScheduler) {
    SOAP_RETURN_IF_ERROR(transport->Connect(wire::Address::Scheduler(), scheduler));
  }
  return transport;
}

// With `output` ends what the process prints: what could not be written is the log's, and the
// code's where there is no worse one.
template <typename Node>
int RunUntilSignal(Node* node, SignalWatch* signals, OutputThread* output) {
  signals->Attach([node](int code, int value) {
    if constexpr (std::is_same_v<Node, SchedulerNode>) {
      if (value == kStopForStrategy) return node->StopForStrategy();
      node->LearnWhy(value);
    }
    node->RequestStop(code);
  });
  const int code = node->Run();
  signals->Detach();
  const absl::Status said = output->Finish(OutputThreadOptions{}.linger);
  LOG_IF(ERROR, !said.ok()) << said.message();
  return code == kExitOk && absl::IsUnavailable(said) ? kExitConfig : code;
}

std::string HostName() {
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, sizeof(host) - 1);
  std::string name = host;
  for (char& c : name) c = c >= ' ' && c <= '~' ? c : '?';  // a Hello says it to people
  return name;
}

// Of JSON lines, where those are asked for.
std::optional<LogOrigin> OriginOf(wire::Role role, const RankChoice& rank, const NodeFlags& flags) {
  if (!flags.json_log) return std::nullopt;
  return LogOrigin{RoleName(role), role == wire::Role::kScheduler ? -1 : rank.rank, HostName()};
}

std::string SecurityText(const security::ProcessKeys* keys) {
  if (keys == nullptr) return "off: neither encrypted nor authenticated";
  return absl::StrCat("on: encrypted and authenticated, by key ",
                      security::Fingerprint(keys->job->own()));
}

// Null where nothing is to be shown.
absl::StatusOr<std::unique_ptr<StatusHost>> OpenStatus(wire::Role role, const NodeFlags& flags,
                                                       const security::ProcessKeys* keys) {
  if (flags.http.empty() || flags.http == "off") return nullptr;
  const bool scheduler = role == wire::Role::kScheduler;
  SOAP_ASSIGN_OR_RETURN(
      std::unique_ptr<StatusHost> status,
      StatusHost::Start({.address = flags.http, .names = {HostName(), flags.http_name}},
                        {.dashboard = scheduler, .security = SecurityText(keys)}));
  LOG(INFO) << "pages at http://" << status->address() << (scheduler ? "/" : "/statusz");
  return status;
}

// Null where the job asks for none.
absl::StatusOr<std::unique_ptr<EventReports>> OpenEvents(const Job& job, ReportSink* next) {
  const std::string& folder = job.config.output().tensorboard_path();
  if (folder.empty()) return nullptr;
  const auto rate = [specs = job.specs, clocks = job.total_clocks](Clock clock) {
    return compute::LearningRate(specs.optimizer, specs.schedule, clock, clocks);
  };
  return EventReports::Open(folder, rate, job.total_clocks, next);
}

// A worker of that rank.
bool KeepsParameters(const Job& job, int64_t rank) {
  return job.team != nullptr && job.team->KeepsParameters(rank);
}

absl::Status CheckRole(wire::Role role, const Job& job) {
  if (role != wire::Role::kServer || !KeepsParameters(job, 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cluster.strategy: of ", job.config.cluster().strategy(),
                   " workers keep the parameters, so the job has no server to start"));
}

absl::StatusOr<RankChoice> RankOf(wire::Role role, const NodeFlags& flags, const Job& job) {
  if (role == wire::Role::kScheduler) return RankChoice{};
  if (flags.place.has_value()) return *flags.place;
  SOAP_ASSIGN_OR_RETURN(RankChoice choice, ChooseRank(flags.rank, HostName(),
                                                      [](const char* n) { return getenv(n); }));
  const bool server = role == wire::Role::kServer;
  const uint32_t count =
      server ? ServerCount(job.config, job.specs.policy) : job.config.cluster().workers();
  SOAP_RETURN_IF_ERROR(CheckRank(choice, RoleName(role), count));
  return choice;
}

std::shared_ptr<const Job> WithFault(std::shared_ptr<const Job> job, server::StoreFault fault) {
  if (fault == server::StoreFault::kNone) return job;
  Job faulty = *job;
  faulty.store_fault = fault;
  return std::make_shared<const Job>(std::move(faulty));
}

// While a thread of this process does what nobody will use, and cannot be stopped.
[[noreturn]] void EndAtOnce(int code, LogOutput* log) {
  google::FlushLogFiles(google::INFO);
  log->Finish();
  std::_Exit(code);
}

// The worker's flags for the server beside it, which takes what ports are free.
NodeFlags FlagsBeside(const NodeFlags& flags) {
  NodeFlags beside = flags;
  beside.stream_port = 0;
  if (absl::StartsWith(flags.bind, "tcp://")) {
    beside.bind = absl::StrCat(flags.bind.substr(0, flags.bind.rfind(':')), ":0");
  } else {
    beside.bind.clear();
  }
  return beside;
}

// Of the server beside a worker. Null: none.
absl::StatusOr<std::shared_ptr<const security::ProcessKeys>> KeysBeside(const NodeFlags& flags,
                                                                        const Job& job) {
  if (!flags.key.empty() && !std::filesystem::is_directory(flags.key)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--key: ", flags.key, ": by ", job.config.cluster().strategy(),
                     " a worker keeps parameters, and needs worker.key and server.key: give the "
                     "folder that has both"));
  }
  return KeysOf(wire::Role::kServer, FlagsBeside(flags));
}

// What a worker's process has of itself.
struct WorkerProcess {
  std::shared_ptr<const Job> job;
  std::unique_ptr<transport::Transport> transport;
  Registration registration;
  ReportSink* reports = nullptr;
  StatusHost* status = nullptr;
};

// A worker, with the server beside it where workers keep the parameters.
absl::StatusOr<int> RunWorker(const NodeFlags& flags, WorkerProcess process, SignalWatch* signals,
                              OutputThread* output, LogOutput* log) {
  std::optional<ServerNode> server;
  if (KeepsParameters(*process.job, process.registration.wanted_rank)) {
    const NodeFlags beside = FlagsBeside(flags);
    SOAP_ASSIGN_OR_RETURN(auto keys, KeysBeside(flags, *process.job));
    SOAP_ASSIGN_OR_RETURN(
        std::unique_ptr<transport::Transport> transport,
        OpenTransport(wire::Role::kServer, beside, *process.job, std::move(keys), process.status));
    Registration registration = process.registration;
    registration.nonce = RandomNumber();
    server.emplace(process.job, std::move(transport), registration, process.reports);
  }
  WorkerNode worker(process.job, std::move(process.transport), process.registration,
                    process.reports);
  worker.ShowAt(process.status);
  int code = kExitOk;
  if (server.has_value()) {
    OwnerNode both(&worker, &*server);
    code = RunUntilSignal(&both, signals, output);
  } else {
    code = RunUntilSignal(&worker, signals, output);
  }
  if (worker.still_prepares()) EndAtOnce(code, log);
  return code;
}

// What can be told of the flags before the job is read.
absl::Status CheckFlags(wire::Role role, const NodeFlags& flags, const wire::Cluster& cluster) {
  SOAP_RETURN_IF_ERROR(CheckSecurity(cluster, !flags.key.empty()));
  if (cluster.scheduler().empty()) {
    return absl::InvalidArgumentError(
        "cluster.scheduler: an endpoint is needed, such as --scheduler=tcp://127.0.0.1:7070");
  }
  SOAP_RETURN_IF_ERROR(CheckEndpoint(cluster));
  if (role != wire::Role::kScheduler) SOAP_RETURN_IF_ERROR(CheckCalled(cluster));
  return Place(flags.placement);
}

// The same and the rest of what a start would refuse, as far as that is known without one.
absl::Status CheckStart(wire::Role role, const NodeFlags& flags, const Job& job) {
  SOAP_RETURN_IF_ERROR(CheckFlags(role, flags, job.config.cluster()));
  SOAP_RETURN_IF_ERROR(KeysOf(role, flags).status());
  if (!flags.bind.empty()) SOAP_RETURN_IF_ERROR(transport::CheckEndpoint(flags.bind));
  SOAP_RETURN_IF_ERROR(CheckRole(role, job));
  SOAP_ASSIGN_OR_RETURN(const RankChoice rank, RankOf(role, flags, job));
  if (role == wire::Role::kWorker && KeepsParameters(job, rank.rank)) {
    SOAP_RETURN_IF_ERROR(KeysBeside(flags, job).status());
  }
  // Server 0 writes the model.
  SOAP_RETURN_IF_ERROR(
      CheckOutputs(job.config, {.model = role == wire::Role::kServer && rank.rank <= 0,
                                .events = role == wire::Role::kScheduler}));
  SOAP_RETURN_IF_ERROR(CheckOutputsApart(job.config, flags));
  return role == wire::Role::kScheduler ? CheckNoRecording(job.config) : absl::OkStatus();
}

absl::StatusOr<int> RunNode(wire::Role role, const NodeFlags& flags, wire::JobConfig config,
                            server::StoreFault fault) {
  SOAP_RETURN_IF_ERROR(CheckFlags(role, flags, config.cluster()));
  SignalWatch signals;
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<const Job> job, PrepareJob(std::move(config)));
  SOAP_RETURN_IF_ERROR(CheckRole(role, *job));
  SOAP_RETURN_IF_ERROR(CheckOutputsApart(job->config, flags));
  SOAP_ASSIGN_OR_RETURN(const RankChoice rank, RankOf(role, flags, *job));
  job = WithFault(std::move(job), fault);
  if (role == wire::Role::kWorker) {
    SOAP_RETURN_IF_ERROR(ChooseInstructionSet(job->config.cluster()));
  }
  const bool records = !job->config.output().record_path().empty();
  if (role == wire::Role::kScheduler && records) {
    SOAP_RETURN_IF_ERROR(CheckRecordingFolder(job->config));
  }
  SOAP_RETURN_IF_ERROR(StartLogging(role, rank, job->config.output().log_dir()));
  LogOutput log_output(2 * kSecond, OriginOf(role, rank, flags));
  LOG_IF(INFO, !flags.variables.empty())
      << "from the environment: " << absl::StrJoin(flags.variables, ", ");
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const security::ProcessKeys> keys,
                        KeysOf(role, flags));
  // First: who looks after processes ends one that does not answer, and a name takes its time.
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<StatusHost> status,
                        OpenStatus(role, flags, keys.get()));
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<transport::Transport> transport,
                        OpenTransport(role, flags, *job, keys, status.get()));
  OutputThread output(&std::cout, STDOUT_FILENO);
  Console console(&std::cout, ConsoleOf(flags));
  JsonReports json;
  ConsoleReports text(&console, SpeaksUtf8([](const char* name) { return getenv(name); }));
  if (role == wire::Role::kScheduler) {
    LOG(INFO) << "scheduler at " << transport->endpoint() << ": " << job->summary;
    for (const std::string& note : job->notes) LOG(INFO) << note;
    const uint64_t session = RandomNumber();
    SOAP_ASSIGN_OR_RETURN(auto checkpoints, CheckpointKeeper::Open(job, session));
    if (records) SOAP_RETURN_IF_ERROR(BeginRecording(job->config));
    SOAP_ASSIGN_OR_RETURN(std::unique_ptr<Recorder> recorder,
                          Recorder::Open(*job, wire::Address::Scheduler(), session));
    ReportSink* reports = flags.json_progress ? static_cast<ReportSink*>(&json) : &text;
    SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<EventReports> events, OpenEvents(*job, reports));
    if (events != nullptr) reports = events.get();
    SchedulerNode node(job, std::move(transport), session, reports);
    node.RecordTo(std::move(recorder));
    node.KeepCheckpointsBy(std::move(checkpoints));
    node.ShowAt(status.get());
    return RunUntilSignal(&node, &signals, &output);
  }
  LOG_IF(INFO, rank.source != "--rank")
      << "rank " << (rank.rank < 0 ? "" : absl::StrCat(rank.rank, " ")) << "from " << rank.source;
  const Registration registration{
      .wanted_rank = rank.rank, .nonce = RandomNumber(), .host = HostName()};
  ReportSink* node_reports = flags.json_progress ? &json : nullptr;
  if (role == wire::Role::kServer) {
    ServerNode node(job, std::move(transport), registration, node_reports);
    if (flags.placement.pin_shards) node.PinShards();
    node.ShowAt(status.get());
    return RunUntilSignal(&node, &signals, &output);
  }
  return RunWorker(flags, {job, std::move(transport), registration, node_reports, status.get()},
                   &signals, &output, &log_output);
}

// A link within the machine takes three descriptors: a few hundred peers are more than the usual
// soft limit of 1,024.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(wire::Role role, const std::string& program, int argc, char** argv,
         server::StoreFault fault) {
  const auto parsed = ParseNodeFlags(program, argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return end->code;
  const NodeFlags& flags = std::get<NodeFlags>(parsed);
  const absl::StatusOr<wire::JobConfig> config = ConfigFromFlags(flags);
  if (!config.ok()) return SayConfigError(program, config.status());
  return RunRole(role, program, flags, *config, fault);
}

}  // namespace

const char* RoleName(wire::Role role) {
  if (role == wire::Role::kScheduler) return "scheduler";
  return role == wire::Role::kServer ? "server" : "worker";
}

int RunRole(wire::Role role, const std::string& program, const NodeFlags& flags,
            const wire::JobConfig& config, server::StoreFault fault) {
  if (flags.print_config || flags.check) {
    return PrintOrCheck(program, flags, config,
                        [&](const Job& job) { return CheckStart(role, flags, job); });
  }
  RaiseDescriptorLimit();
  const absl::StatusOr<int> code = RunNode(role, flags, config, fault);
  if (code.ok()) return *code;
  const int why = SayConfigError(program, code.status());
  return absl::IsUnavailable(code.status()) ? kExitPeerLost : why;
}

int NodeMain(wire::Role role, int argc, char** argv, server::StoreFault fault) {
  HoldStandardDescriptors(WhenClosed::kSilent);
  const std::string program = absl::StrCat("soapstone-", RoleName(role));
  return CodeOfOutput(program, Main(role, program, argc, argv, fault));
}

}  // namespace soapstone::apps
