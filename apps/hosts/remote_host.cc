#include "apps/hosts/remote_host.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "apps/loop/node_loop.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

constexpr size_t kStrangeBytesMax = size_t{1} << 20;
constexpr int kStrangeShownMax = 160;  // bytes of a line
constexpr size_t kLogBytesMax = size_t{256} << 20;
constexpr size_t kLastLinesMax = 10;
constexpr size_t kLastLineBytesMax = 4096;
constexpr Nanos kHostSilenceMax = 20 * kSecond;
constexpr Nanos kKillHeeded = 2 * kSecond;
constexpr Nanos kFarewell = 4 * kSecond;  // the agent needs 2 s
constexpr Nanos kShortFarewell = kSecond;
constexpr Nanos kPipesOpen = kSecond;

}  // namespace

class RemoteProcess final : public Launched {
 public:
  RemoteProcess(RemoteHost* host, int id, std::string name, std::string log_path, std::FILE* log)
      : host_(host), id_(id), name_(std::move(name)), log_path_(std::move(log_path)), log_(log) {
    host_->processes_[id_] = this;
  }
  ~RemoteProcess() override {
    if (!ending_.has_value()) host_->abandoned_ = true;
    Signal(SIGKILL);
    host_->processes_.erase(id_);
    std::fclose(log_);
  }
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;

  const std::string& name() const override { return name_; }
  std::string label() const override { return absl::StrCat(host_->host(), ":", name_); }
  // Its host is waited at.
  void AppendFds(std::vector<int>* /*fds*/) const override {}
  void ReadStdout(const OnLine& on_line) override { Hand(&reports_, on_line); }
  void ReadStderr(const OnLine& on_line) override { Hand(&errors_, on_line); }
  void Signal(int signal_number) override {
    if (ending_.has_value()) return;
    if (signal_number == SIGKILL && std::exchange(killed_, true)) return;
    host_->Send(SignalProcess{id_, signal_number});
    if (signal_number == SIGKILL) host_->AwaitKilled();
  }
  void Poll() override {}
  const std::optional<Ending>& ending() const override { return ending_; }
  const std::deque<std::string>& last_lines() const override { return last_lines_; }
  const std::string& log_path() const override { return log_path_; }

  void Take(OutputLine line) {
    if (!line.is_error) return reports_.push_back(std::move(line.text));
    Log(line.text);
    last_lines_.push_back(line.text.substr(0, kLastLineBytesMax));
    if (last_lines_.size() > kLastLinesMax) last_lines_.pop_front();
    errors_.push_back(std::move(line.text));
  }
  void End(const Ending& ending) {
    if (!ending_.has_value()) ending_ = ending;
  }

 private:
  static void Hand(std::deque<std::string>* lines, const OnLine& on_line) {
    for (; !lines->empty(); lines->pop_front()) on_line(lines->front());
  }
  void Log(const std::string& line) {
    if (log_bytes_ > kLogBytesMax) return;
    log_bytes_ += line.size() + 1;
    std::fprintf(log_, "%s\n", log_bytes_ > kLogBytesMax ? "(cut here: 256 MiB)" : line.c_str());
    std::fflush(log_);
  }

  RemoteHost* host_;
  int id_;
  std::string name_;
  std::string log_path_;
  std::FILE* log_;
  size_t log_bytes_ = 0;
  bool killed_ = false;
  std::deque<std::string> reports_;  // since they were read last
  std::deque<std::string> errors_;
  std::deque<std::string> last_lines_;
  std::optional<Ending> ending_;
};

absl::StatusOr<std::unique_ptr<RemoteHost>> RemoteHost::Connect(Spec spec) {
  std::unique_ptr<RemoteHost> host(new RemoteHost(std::move(spec)));
  SOAP_ASSIGN_OR_RETURN(
      host->ssh_, ChildProcess::Start({.name = absl::StrCat("the connection to ", host->host()),
                                       .command = host->spec_.command,
                                       .log_path = "/dev/null",
                                       .fed = true,
                                       .stdout_line_bytes_max = size_t{128} << 20}));
  host->heard_ = NodeLoop::Now();
  return host;
}

RemoteHost::~RemoteHost() {
  if (ssh_ == nullptr) return;
  Leave();
  ssh_->Poll();
  while (!lost_.has_value() && !ssh_->ending().has_value() && NodeLoop::Now() < *leave_due_) {
    ssh_->ReadStdout([](const std::string&) {});
    ssh_->ReadStderr([](const std::string&) {});
    poll(nullptr, 0, 10);
    ssh_->Poll();
  }
}

void RemoteHost::Leave() {
  ssh_->CloseStdin();
  const bool runs = abandoned_ || !AllEnded();
  if (!leave_due_.has_value()) leave_due_ = NodeLoop::Now() + (runs ? kFarewell : kShortFarewell);
}

void RemoteHost::Send(const AgentMessage& message) {
  if (!lost_.has_value()) unsent_.AddLine(ToJsonLine(message));
}

void RemoteHost::Turn() {
  if (lost_.has_value()) return;
  ssh_->Poll();
  ssh_->ReadStdout([this](const std::string& line) { OnLine(line); });
  ssh_->ReadStderr([this](const std::string& line) { OnStrange(line); });
  if (lost_.has_value()) return;
  const Nanos now = NodeLoop::Now();
  if (now - spoke_ >= kSecond && unsent_.empty()) {
    spoke_ = now;
    Send(StillHere{});
  }
  // Who takes no more has ended, or is not heard.
  if (const std::optional<size_t> taken = ssh_->Feed(unsent_.front())) unsent_.Drop(*taken);
  LookForLoss();
}

void RemoteHost::LookForLoss() {
  const Nanos now = NodeLoop::Now();
  std::vector<int> open;
  ssh_->AppendFds(&open);
  if (ssh_->ending().has_value() && !ssh_ended_.has_value()) ssh_ended_ = now;
  // A process that ssh leaves behind may keep its output open.
  if (ssh_ended_.has_value() && (open.empty() || now - *ssh_ended_ > kPipesOpen)) {
    std::string said;
    if (!ssh_->last_lines().empty()) {
      // ssh's own lines end with \r\n.
      const auto last = absl::StripTrailingAsciiWhitespace(ssh_->last_lines().back());
      said = absl::StrCat(": ", absl::Utf8SafeCHexEscape(last.substr(0, kStrangeShownMax)));
    }
    Lose(absl::StrCat("the connection ended, ", ssh_->ending()->ToString(), said));
  } else if (checked_.has_value() && now - heard_ > kHostSilenceMax) {
    Lose("nothing was heard for 20 s");
  } else if (kill_due_.has_value() && now > *kill_due_) {
    Lose("its processes did not end when they were killed");
  }
}

void RemoteHost::OnLine(const std::string& line) {
  if (lost_.has_value()) return;
  const std::optional<AgentMessage> message = FromJsonLine(line);
  if (!message.has_value()) return OnStrange(line);
  heard_ = NodeLoop::Now();
  OnMessage(*message);
}

void RemoteHost::OnStrange(const std::string& line) {
  if (lost_.has_value()) return;
  strange_bytes_ += line.size() + 1;
  if (strange_bytes_ > kStrangeBytesMax) {
    return Lose("it sends more than 1 MiB that is not the agent's");
  }
  const absl::string_view said = absl::StripTrailingAsciiWhitespace(line);  // of its \r
  spec_.say(absl::Utf8SafeCHexEscape(said.substr(0, kStrangeShownMax)));
}

void RemoteHost::OnMessage(const AgentMessage& message) {
  if (const auto* checked = std::get_if<Checked>(&message)) {
    checked_ = *checked;
  } else if (const auto* line = std::get_if<OutputLine>(&message)) {
    const auto process = processes_.find(line->id);
    if (process != processes_.end()) process->second->Take(*line);
  } else if (const auto* ended = std::get_if<ProcessEnded>(&message)) {
    const auto process = processes_.find(ended->id);
    if (process != processes_.end()) process->second->End({ended->by_signal, ended->number});
    if (AllEnded()) kill_due_.reset();
  }
}

void RemoteHost::Lose(const std::string& why) {
  lost_ = why;
  ssh_->Signal(SIGKILL);
  if (!AllEnded()) spec_.say(absl::StrCat("the host is lost: ", why));
  for (const auto& [id, process] : processes_) process->End({.by_signal = true, .number = SIGKILL});
}

bool RemoteHost::AllEnded() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process.second->ending().has_value(); });
}

void RemoteHost::AwaitKilled() {
  if (!kill_due_.has_value()) kill_due_ = NodeLoop::Now() + kKillHeeded;
}

absl::StatusOr<std::unique_ptr<Launched>> RemoteHost::Start(StartProcess start,
                                                            std::string log_path) {
  std::FILE* const log = std::fopen(log_path.c_str(), "we");
  if (log == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot start ", start.name, ": ", log_path, ": ", std::strerror(errno)));
  }
  start.id = next_id_++;
  auto process =
      std::make_unique<RemoteProcess>(this, start.id, start.name, std::move(log_path), log);
  Send(start);
  if (lost_.has_value()) process->End({.by_signal = true, .number = SIGKILL});
  return process;
}

}  // namespace soapstone::apps
