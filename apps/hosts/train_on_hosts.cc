#include "apps/hosts/train_on_hosts.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "apps/cli/job_source.h"
#include "apps/cli/launcher.h"
#include "apps/daemon/listen_choice.h"
#include "apps/hosts/hosts_file.h"
#include "apps/hosts/remote_host.h"
#include "apps/loop/node_loop.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_config.h"
#include "cluster/job_paths.h"
#include "cluster/team/job_strategy.h"
#include "security/job_keys.h"

namespace soapstone::apps {
namespace {

constexpr int kHostsPollMillis = 20;
constexpr size_t kHostsBytesMax = size_t{1} << 20;
constexpr char kDefaultSsh[] = "ssh -o BatchMode=yes";
constexpr size_t kErrorShownMax = 1000;  // bytes of a host's
constexpr int kNoProgram = 126;          // a shell's codes from there on: not to be run, not there

std::string Quoted(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

void SayLine(const std::string& line) { std::cerr << "soapstone: " << line << "\n"; }

// Outputs that are joined from what each process wrote, which other hosts keep.
absl::Status CheckOutputsOfHosts(const wire::Output& output) {
  for (const auto& [field, path] : {std::pair("trace_path", output.trace_path()),
                                    std::pair("record_path", output.record_path()),
                                    std::pair("curve_path", output.curve_path())}) {
    if (path.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "output.", field, ": its parts would stay on the hosts; leave it out with --hosts"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadHosts(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(path, kHostsBytesMax);
  if (text.ok()) return text;
  if (absl::IsResourceExhausted(text.status())) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts: ", path, " has more than 1 MiB"));
  }
  return absl::InvalidArgumentError(absl::StrCat("--hosts: cannot read ", text.status().message()));
}

// As execvp looks for it.
bool IsCommand(const std::string& name) {
  const auto runs = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (absl::StrContains(name, '/')) return runs(name);
  const char* const path = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path != nullptr ? path : "/bin:/usr/bin", ':')) {
    if (runs(absl::StrCat(folder, "/", name))) return true;
  }
  return false;
}

// In `cluster`, where it is not said, where the scheduler listens so that it is reached by `host`.
absl::Status SettleScheduler(const HostLine& host, wire::Cluster* cluster) {
  const std::string& name = host.addr.empty() ? host.host : host.addr;
  const absl::StatusOr<std::string> here = AddressTowards(name.substr(name.rfind('@') + 1), "22");
  const std::string& said = cluster->scheduler();
  if (said.empty() && !here.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--hosts: which address of this machine ", name, " reaches cannot be told, for ",
        here.status().message(), ": say it, --scheduler=tcp://ADDRESS:0, or the host's, addr="));
  }
  if (said.empty()) {
    cluster->set_scheduler(absl::StrCat("tcp://", *here, ":0"));
    return absl::OkStatus();
  }
  const bool within = absl::StartsWith(said, "ipc://") || absl::StartsWith(said, "tcp://127.") ||
                      absl::StartsWith(said, "tcp://localhost:");
  if (!within || !here.ok() || absl::StartsWith(*here, "127.")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cluster.scheduler: ", said,
                                                 " is not reached from ", name,
                                                 ": leave it out, or say tcp://", *here, ":0"));
}

class SshHosts final : public Hosts {
 public:
  explicit SshHosts(const NodeFlags& flags)
      : file_(flags.hosts_path),
        ssh_(flags.ssh.empty() ? kDefaultSsh : flags.ssh),
        key_(flags.key) {}

  // All hosts end at once, not one after the other.
  ~SshHosts() override {
    for (const auto& [line, host] : hosts_) host->Leave();
  }
  SshHosts(const SshHosts&) = delete;
  SshHosts& operator=(const SshHosts&) = delete;

  absl::Status Settle(wire::JobConfig* config) override;
  int Open(const wire::JobConfig& config) override;
  absl::StatusOr<std::unique_ptr<Launched>> Start(const Process& process) override;
  void AppendFds(std::vector<int>* fds) const override {
    for (const auto& [line, host] : hosts_) host->AppendFds(fds);
  }
  void Turn() override {
    for (const auto& [line, host] : hosts_) host->Turn();
  }
  std::string ModelAt(const std::string& path) const override {
    return absl::StrCat(lines_[first_server()].host, ":", path);
  }

 private:
  // Which line has server 0, which writes the model.
  size_t first_server() const {
    return places_.servers.empty() ? places_.workers[0] : places_.servers[0];
  }
  absl::Status Connect(const std::string& program);
  void SendChecks(const wire::JobConfig& config, const std::string& build);
  void AwaitChecks(Nanos patience);
  // What is wrong with a host, "" for nothing, and whether time may mend it.
  std::pair<std::string, bool> Fault(const RemoteHost& host, Nanos patience,
                                     const std::string& build) const;
  int SayFaults(Nanos patience, const std::string& build) const;

  std::string file_;
  std::string ssh_;
  std::string key_;  // the folder of the keys; empty: without
  std::vector<HostLine> lines_;
  HostPlaces places_;
  std::map<size_t, std::unique_ptr<RemoteHost>> hosts_;  // by line, those that have processes
};

absl::Status SshHosts::Settle(wire::JobConfig* config) {
  SOAP_RETURN_IF_ERROR(CheckOutputsOfHosts(config->output()));
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadHosts(file_));
  SOAP_ASSIGN_OR_RETURN(lines_, ParseHosts(text, file_));
  SOAP_ASSIGN_OR_RETURN(const cluster::JobSpecs specs, CheckJobConfig(*config));
  SOAP_ASSIGN_OR_RETURN(const uint32_t servers, ServerProcesses(*config, specs));
  if (servers == 0 && !key_.empty()) {
    return absl::InvalidArgumentError(
        "--key does not go with --hosts and a strategy whose workers keep the parameters so far: a "
        "host is given one key, and such a worker has two");
  }
  SOAP_ASSIGN_OR_RETURN(places_, PlaceOnHosts(lines_, servers, config->cluster().workers(), file_));
  wire::Cluster* const cluster = config->mutable_cluster();
  absl::Status settled = SettleScheduler(lines_[first_server()], cluster);
  if (settled.ok() || !cluster->scheduler().empty()) return settled;
  // A host whose name is unknown is named with all that cannot be reached, if another one's is
  // known.
  for (const HostLine& line : lines_) {
    if (SettleScheduler(line, cluster).ok()) return absl::OkStatus();
  }
  return settled;
}

absl::Status SshHosts::Connect(const std::string& program) {
  std::set<size_t> used(places_.servers.begin(), places_.servers.end());
  used.insert(places_.workers.begin(), places_.workers.end());
  const std::vector<std::string> ssh = absl::StrSplit(ssh_, ' ', absl::SkipEmpty());
  if (ssh.empty()) return absl::InvalidArgumentError("--ssh: no command");
  if (!IsCommand(ssh[0])) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ssh: there is no command ", ssh[0], absl::StrContains(ssh[0], '/') ? "" : " in PATH"));
  }
  for (size_t i = 0; i < lines_.size(); ++i) {
    const std::string& name = lines_[i].host;
    if (!used.contains(i)) {
      SayLine(absl::StrCat("host ", name, " is not used"));
      continue;
    }
    RemoteHost::Spec spec = {.host = name, .command = ssh, .say = [name](const std::string& line) {
                               SayLine(absl::StrCat(name, ": ", line));
                             }};
    spec.command.push_back(name);
    spec.command.push_back(absl::StrCat("exec ", Quoted(program), " agent"));
    SOAP_ASSIGN_OR_RETURN(hosts_[i], RemoteHost::Connect(std::move(spec)));
  }
  return absl::OkStatus();
}

void SshHosts::SendChecks(const wire::JobConfig& config, const std::string& build) {
  std::error_code error;
  wire::JobConfig job = config;
  FromFolder(std::filesystem::current_path(error).string(), &job);
  job.mutable_output()->clear_log_dir();
  job.mutable_output()->clear_tensorboard_path();  // the scheduler's
  wire::JobConfig without_model = job;
  without_model.mutable_output()->clear_model_path();
  for (const auto& [line, host] : hosts_) {
    const bool saves_it = first_server() == line;
    host->Send(CheckJob{.build = build, .job = JobText(saves_it ? job : without_model)});
  }
}

void SshHosts::AwaitChecks(Nanos patience) {
  const Nanos due = NodeLoop::Now() + patience;
  for (bool waits = true; waits && NodeLoop::Now() < due;) {
    waits = false;
    std::vector<int> readable;
    for (const auto& [line, host] : hosts_) {
      host->Turn();
      host->AppendFds(&readable);
      waits = waits || !(host->checked().has_value() || host->lost().has_value());
    }
    std::vector<pollfd> fds;
    for (const int fd : readable) fds.push_back({.fd = fd, .events = POLLIN});
    if (waits) poll(fds.data(), fds.size(), kHostsPollMillis);
  }
}

std::pair<std::string, bool> SshHosts::Fault(const RemoteHost& host, Nanos patience,
                                             const std::string& build) const {
  if (host.checked().has_value()) {
    const Checked& checked = *host.checked();
    if (checked.build != build) {
      return {absl::StrCat("another build of soapstone, ", PlainText(checked.build.substr(0, 12)),
                           ", not ", build.substr(0, 12)),
              false};
    }
    return {PlainText(checked.error.substr(0, kErrorShownMax)), false};
  }
  if (!host.lost().has_value()) {
    return {absl::StrCat("no answer for ", patience / kSecond, " s"), true};
  }
  const bool no_program =
      host.ending().has_value() && !host.ending()->by_signal &&
      (host.ending()->number == kNoProgram || host.ending()->number == kNoProgram + 1 ||
       host.ending()->number == kExitConfig);
  return {no_program ? absl::StrCat("no such build of soapstone there: ", *host.lost())
                     : absl::StrCat("not reached: ", *host.lost()),
          !no_program};
}

int SshHosts::SayFaults(Nanos patience, const std::string& build) const {
  int code = kExitOk;
  for (const auto& [line, host] : hosts_) {
    const auto [fault, may_mend] = Fault(*host, patience, build);
    if (fault.empty()) continue;
    SayLine(absl::StrCat("host ", host->host(), ": ", fault));
    if (!may_mend) code = kExitConfig;
    if (may_mend && code == kExitOk) code = kExitPeerLost;
  }
  return code;
}

int SshHosts::Open(const wire::JobConfig& config) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  const absl::StatusOr<std::string> build = BuildId();
  if (!build.ok()) return SayConfigError("soapstone", build.status());
  const absl::Status connected = Connect(program);
  if (!connected.ok()) return SayConfigError("soapstone", connected);
  SendChecks(config, *build);
  const Nanos patience = NanosOf(config.cluster().start_timeout_s());
  AwaitChecks(patience);
  const int code = SayFaults(patience, *build);
  if (code != kExitOk) return code;
  SayLine(absl::StrCat(hosts_.size(), hosts_.size() == 1 ? " host is" : " hosts are",
                       " reached, of this build, and can read what the job needs"));
  return kExitOk;
}

absl::StatusOr<std::unique_ptr<Launched>> SshHosts::Start(const Process& process) {
  const bool server = process.role == "server";
  const auto rank = static_cast<size_t>(process.rank);
  const HostLine& line = lines_[(server ? places_.servers : places_.workers)[rank]];
  const size_t index = 1 + rank + (server ? 0 : places_.servers.size());
  StartProcess start = {.index = static_cast<uint32_t>(index),
                        .name = absl::StrCat(process.role, "-", process.rank),
                        .scheduler = process.scheduler,
                        .bind = line.addr.empty() ? "" : absl::StrCat("tcp://", line.addr, ":0"),
                        .cpus = line.cpus};
  if (!key_.empty()) {
    const auto role = server ? security::KeyRole::kServer : security::KeyRole::kWorker;
    SOAP_ASSIGN_OR_RETURN(start.key, security::ReadKeyText(key_, role));
  }
  return hosts_[static_cast<size_t>(&line - lines_.data())]->Start(std::move(start),
                                                                   process.log_path);
}

// A connection takes three descriptors: a few hundred are more than the usual soft limit.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int TrainOnHosts(const NodeFlags& flags) {
  signal(SIGPIPE, SIG_IGN);  // an ssh that has ended
  RaiseDescriptorLimit();
  SshHosts hosts(flags);
  return Train(flags, &hosts);
}

}  // namespace soapstone::apps
