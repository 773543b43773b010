#include "apps/cli/launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "apps/loop/node_loop.h"
#include "apps/report/result_text.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "cluster/job.h"

namespace soapstone::apps {
namespace {

constexpr char kScheduler[] = "scheduler";
constexpr size_t kRecentNews = 16;
constexpr char kEndedFor[] = "] ended: ";  // in a node's log
constexpr int kChildrenPollMillis = 100;
// From a signal or the scheduler's end until the rest are told to end; and until they are killed.
constexpr Nanos kTermAfter = 1500 * kMillisecond;
constexpr Nanos kSlept = 2 * kSecond;       // between two turns
constexpr Nanos kAloneMax = 300 * kSecond;  // of the scheduler, when all others have ended
constexpr Nanos kKillAfter = 2 * kSecond;   // after SIGTERM; on a signal of ours grace_s more
// A server that ends with a code may have been told to by the scheduler, which ends a little later.
constexpr Nanos kSuccessorRetry = kSecond / 2;
constexpr Nanos kSchedulerGrace = 2500 * kMillisecond;

bool IsDocumented(int code) {
  return code == kExitInternal || code == kExitBroken || code == kExitConfig ||
         code == kExitNotFinite || code == kExitStopped || code == kExitPeerLost ||
         code == kExitTerminated || code == kExitInterrupted;
}

// What the whole ends with when this child's end is its end.
int CodeFor(const Ending& ending) {
  if (ending.by_signal) return kExitPeerLost;
  return IsDocumented(ending.number) ? ending.number : kExitInternal;
}

// "server-1", or "worker-2.1", a successor; nothing of the scheduler.
std::optional<EndedProcess> EndedOf(absl::string_view name, int code) {
  const bool is_worker = absl::ConsumePrefix(&name, "worker-");
  if (!is_worker && !absl::ConsumePrefix(&name, "server-")) return std::nullopt;
  uint32_t rank = 0;
  const bool known = absl::SimpleAtoi(name.substr(0, name.find('.')), &rank);
  if (!known || rank > kEndedRankMax) return std::nullopt;
  return EndedProcess{.is_worker = is_worker, .rank = rank, .code = code};
}

}  // namespace

Launcher::Launcher(LauncherOptions options, Console* console)
    : options_(std::move(options)), console_(console) {}

void Launcher::TakeSignals() {
  sigset_t signals = StopSignals();
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal_fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

// It may read data for as long as that takes; but who does nothing at all, such as one that is
// stopped, is not waited for longer than for those who are missing.
void Launcher::AwaitListening() {
  if (!wanted_endpoint_.empty() || stop_.has_value()) return;
  const Nanos now = NodeLoop::Now();
  const uint64_t ticks = children_.front()->CpuTicks();
  if (ticks != scheduler_ticks_ || scheduler_worked_ == 0) scheduler_worked_ = now;
  scheduler_ticks_ = ticks;
  const double limit_s = options_.config.cluster().start_timeout_s();
  if (now - scheduler_worked_ < NanosOf(limit_s)) return;
  BeginStop(kExitPeerLost,
            absl::StrCat("the scheduler does not listen, and has done nothing for ", limit_s, " s"),
            0);
}

// It has nothing to wait for when all others have ended, but a disk may be slow. Time in which this
// process did not run itself (its machine slept) does not count.
void Launcher::AwaitScheduler() {
  const auto ended = [](const auto& child) { return child->ending().has_value(); };
  const bool alone = nodes_started_ && !stop_.has_value() && successors_.empty() &&
                     !ended(children_.front()) &&
                     std::all_of(std::next(children_.begin()), children_.end(), ended);
  const Nanos now = NodeLoop::Now();
  const bool slept = now - std::exchange(last_turn_, now) > kSlept;
  if (!alone || slept) alone_since_ = stopped_since_ = now;
  if (!alone) return;
  if (!scheduler()->IsStopped()) stopped_since_ = now;
  const Nanos patience = 2 * NanosOf(options_.config.cluster().heartbeat_timeout_s()) + kKillAfter;
  const bool stopped = now - stopped_since_ >= patience;
  if (!stopped && now - alone_since_ < kAloneMax) return;
  BeginStop(result_.has_value() ? result_->code : kExitPeerLost,
            absl::StrFormat("scheduler lost: %s for %.1f s after all others had ended",
                            stopped ? "it was stopped" : "it has not ended",
                            static_cast<double>(stopped ? patience : kAloneMax) / kSecond),
            0);
}

int Launcher::Run() {
  TakeSignals();
  absl::Status started = StartChild(kScheduler, -1);
  while (started.ok() && !AllEnded()) {
    WaitForEvents();
    ReadSignals();
    ReadChildren();
    CheckEndings();
    if (!wanted_endpoint_.empty() && !nodes_started_ && !stop_.has_value()) {
      nodes_started_ = true;
      started = StartNodes(wanted_endpoint_);
    }
    if (started.ok()) started = StartSuccessors();
    LookForStrategy();
    AwaitListening();
    AwaitScheduler();
    CarryOutStop();
  }
  console_->EndProgress();
  EndPages();
  close(signal_fd_);
  if (!started.ok()) {
    console_->Line(absl::StrCat("soapstone: ", started.message()));
    children_.clear();  // kills what runs
    return absl::IsResourceExhausted(started) ? kExitConfig : kExitInternal;
  }
  if (stop_->code == kExitStopped && asked_.has_value()) stop_->code = *asked_;  // not to go on
  ShowEnd();
  // What is missing from the table may be what it is asked for; whoever ends it early wants none.
  return unread_reports_ && stop_->code == kExitOk ? asked_.value_or(kExitInternal) : stop_->code;
}

absl::StatusOr<std::unique_ptr<Launched>> Launcher::Spawn(const std::string& role, int rank,
                                                          const std::string& log_name) const {
  const std::string log_path = absl::StrCat(options_.log_dir, "/", log_name, ".log");
  if (rank >= 0 && options_.hosts != nullptr) {
    return options_.hosts->Start(
        {.role = role, .rank = rank, .scheduler = wanted_endpoint_, .log_path = log_path});
  }
  std::vector<std::string> command = {absl::StrCat(options_.program_dir, "/soapstone-", role),
                                      absl::StrCat("--config=", options_.log_dir, "/job.textproto"),
                                      "--progress=json"};
  if (rank < 0 && !options_.http.empty()) {
    command.push_back(absl::StrCat("--http=", options_.http));
    if (!options_.http_name.empty()) {
      command.push_back(absl::StrCat("--http_name=", options_.http_name));
    }
  }
  if (!options_.key.empty()) command.push_back(absl::StrCat("--key=", options_.key));
  if (rank >= 0) {
    command.push_back(absl::StrCat("--rank=", rank));
    command.push_back(absl::StrCat("--scheduler=", wanted_endpoint_));
  }
  return ChildProcess::Start({.name = rank < 0 ? role : absl::StrCat(role, "-", rank),
                              .command = std::move(command),
                              .log_path = log_path});
}

// The server beside a worker, where they keep the parameters; else "".
std::string Launcher::ServerIn(const Launched& child) const {
  constexpr absl::string_view kWorker = "worker-";
  if (options_.servers > 0 || !absl::StartsWith(child.name(), kWorker)) return "";
  return absl::StrCat("server-", child.name().substr(kWorker.size()));
}

absl::Status Launcher::StartChild(const std::string& role, int rank) {
  const std::string log_name = rank < 0 ? role : absl::StrCat(role, "-", rank);
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<Launched> child, Spawn(role, rank, log_name));
  children_.push_back(std::move(child));
  told_.push_back(false);
  return absl::OkStatus();
}

absl::Status Launcher::StartNodes(const std::string& endpoint) {
  const wire::Cluster& cluster = options_.config.cluster();
  console_->Line(absl::StrCat("scheduler at ", endpoint, ", logs in ", options_.log_dir));
  for (uint32_t i = 0; i < options_.servers; ++i) {
    SOAP_RETURN_IF_ERROR(StartChild("server", static_cast<int>(i)));
  }
  for (uint32_t i = 0; i < cluster.workers(); ++i) {
    SOAP_RETURN_IF_ERROR(StartChild("worker", static_cast<int>(i)));
  }
  return absl::OkStatus();
}

void Launcher::WaitForEvents() {
  std::vector<int> readable = {signal_fd_};
  for (const auto& child : children_) child->AppendFds(&readable);
  if (options_.hosts != nullptr) options_.hosts->AppendFds(&readable);
  if (looks_for_strategy()) options_.replanner->AppendFds(&readable);
  std::vector<pollfd> fds;
  for (const int fd : readable) fds.push_back({.fd = fd, .events = POLLIN});
  poll(fds.data(), fds.size(), kChildrenPollMillis);
  if (options_.hosts != nullptr) options_.hosts->Turn();
}

void Launcher::ReadSignals() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    const int code = number == SIGINT ? kExitInterrupted : kExitTerminated;
    const bool first = !asked_.has_value();
    if (first) asked_ = code;
    if (first && result_.has_value()) {  // the job is over, and its end stays what it is
      scheduler()->Signal(SIGTERM);
      if (!stop_.has_value()) BeginStop(result_->code, "", kTermAfter);
      continue;
    }
    if (stop_.has_value()) {  // asked twice
      if (!result_.has_value() || !stop_->reason.empty()) stop_->code = code;
      stop_->kill_at = NodeLoop::Now();
      continue;
    }
    const std::string reason = number == SIGINT ? "interrupted" : "terminated";
    const Nanos grace = NanosOf(options_.config.cluster().grace_s());
    const bool writes = training_ && !options_.config.output().checkpoint_path().empty();
    console_->Line(absl::StrCat(reason, writes ? ": stopping with a checkpoint" : ": stopping"));
    scheduler()->Signal(number == SIGINT ? SIGINT : SIGTERM);  // it tells the others
    BeginStop(code, reason, writes ? grace + kTermAfter : kTermAfter);
    stop_->kill_at = std::max(stop_->kill_at, NodeLoop::Now() + grace + kKillAfter);
  }
}

void Launcher::ReadChildren() {
  for (size_t i = 0; i < children_.size(); ++i) {
    Launched* child = children_[i].get();
    child->ReadStdout([this, child](const std::string& line) { OnReport(*child, line); });
    child->ReadStderr([this, child](const std::string& line) { OnStderrLine(*child, line); });
  }
}

// Of the job the scheduler speaks alone: another process may run on a host that is to be believed
// about itself and nothing else.
void Launcher::OnReport(const Launched& child, const std::string& line) {
  const bool of_job = child.name() == kScheduler;
  absl::StatusOr<Report> report = FromJson(line);
  if (!report.ok() && !absl::StartsWith(line, "{")) return console_->Line(line);
  if (!report.ok()) {
    unread_reports_ = unread_reports_ || of_job;
    return console_->Line(absl::StrCat("soapstone: a report of ", line.size(), " bytes of ",
                                       child.label(),
                                       " cannot be read: ", PlainText(report.status().message())));
  }
  if (auto* node = std::get_if<NodeReport>(&*report)) {
    if (node->name != child.name() && node->name != ServerIn(child)) return;
    std::erase_if(nodes_, [&](const NodeReport& former) { return former.name == node->name; });
    nodes_.push_back(std::move(*node));
  } else if (!of_job) {
    return;
  } else if (const auto* listening = std::get_if<Listening>(&*report)) {
    wanted_endpoint_ = listening->endpoint;
    if (listening->http.empty()) return;
    pages_ = absl::StrCat("http://", listening->http);
    console_->Line(absl::StrCat("pages at ", pages_, "/"));
    WriteFile("http", absl::StrCat(pages_, "\n"));
  } else if (auto* news = std::get_if<News>(&*report)) {
    training_ = training_ || news->text == "started";
    console_->Line(PlainText(news->text));  // one line
    if (recent_news_.size() >= kRecentNews) recent_news_.erase(recent_news_.begin());
    recent_news_.push_back(std::move(news->text));
  } else if (const auto* progress = std::get_if<ProgressReport>(&*report)) {
    if (!stop_.has_value()) console_->Progress(NodeLoop::Now(), ToLine(*progress));
    if (options_.replanner != nullptr) options_.replanner->Take(NodeLoop::Now(), *progress);
  } else if (const auto* slowness = std::get_if<SlownessReport>(&*report)) {
    if (options_.replanner != nullptr) options_.replanner->Take(NodeLoop::Now(), *slowness);
  } else if (auto* result = std::get_if<ResultReport>(&*report)) {
    result_ = std::move(*result);
    std::string& model = result_->model_path;
    const bool here = options_.hosts == nullptr || result_->stopped_early;  // by the scheduler
    if (!here && !model.empty()) model = options_.hosts->ModelAt(model);
  }
}

void Launcher::OnStderrLine(const Launched& child, const std::string& line) {
  // Towards the end all say the same; and the scheduler's information comes as news.
  if (stop_.has_value() || result_.has_value()) return;
  const bool info = !training_ && absl::EndsWith(child.name(), "-0");  // one of each role will do
  const std::optional<std::string> shown = ForwardedLine(child.label(), line, info);
  if (shown.has_value() && !HasBeenSaid(line)) console_->Line(*shown);
}

// Why a node was told to end the scheduler has said.
bool Launcher::HasBeenSaid(const std::string& line) const {
  const size_t end = line.find(kEndedFor);
  if (end == std::string::npos) return false;
  const std::string why = line.substr(end + sizeof(kEndedFor) - 1);
  return !why.empty() &&
         std::any_of(recent_news_.begin(), recent_news_.end(),
                     [&](const std::string& news) { return absl::StartsWith(news, why); });
}

void Launcher::CheckEndings() {
  for (size_t i = 0; i < children_.size(); ++i) {
    children_[i]->Poll();
    if (!children_[i]->ending().has_value() || told_[i]) continue;
    told_[i] = true;
    ReadChildren();
    if (i == 0) {
      OnSchedulerEnded(*children_[i]);
    } else if (!AwaitSuccessor(i)) {
      OnEnded(*children_[i]);
    }
  }
}

bool Launcher::AwaitSuccessor(size_t index) {
  const Launched& child = *children_[index];
  if (!options_.successor_after.has_value() || stop_.has_value() || result_.has_value() ||
      !absl::StartsWith(child.name(), "worker")) {
    return false;
  }
  const Ending& ending = *child.ending();
  // A successor may have come before its predecessor was counted out.
  const bool refused = !ending.by_signal && ending.number == kExitPeerLost;
  if (ending != Ending{.by_signal = true, .number = SIGKILL} && !refused) return false;
  const Nanos after = refused ? kSuccessorRetry : *options_.successor_after;
  console_->Line(absl::StrFormat("%s: %s; a successor starts in %.1f s", child.label(),
                                 ending.ToString(), static_cast<double>(after) / kSecond));
  successors_[index] = NodeLoop::Now() + after;
  return true;
}

absl::Status Launcher::StartSuccessors() {
  for (auto it = successors_.begin(); it != successors_.end() && !stop_.has_value();) {
    const auto [index, due] = *it;
    if (due > NodeLoop::Now()) {
      ++it;
      continue;
    }
    // Workers stand behind the scheduler and the servers.
    const auto rank = static_cast<int>(index - 1 - options_.servers);
    SOAP_ASSIGN_OR_RETURN(
        children_[index],
        Spawn("worker", rank, absl::StrCat("worker-", rank, ".", ++successors_started_)));
    told_[index] = false;
    it = successors_.erase(it);
  }
  return absl::OkStatus();
}

void Launcher::OnSchedulerEnded(const Launched& child) {
  const Ending& ending = *child.ending();
  if (stop_.has_value()) {
    // The others have been told, but for those that it did not know.
    stop_->term_at = std::min(stop_->term_at, NodeLoop::Now() + kTermAfter);
    if (ending.good() && result_.has_value() && asked_.has_value()) {  // it was at its end
      stop_->code = kExitOk;
      stop_->reason.clear();
    }
    // A stop without a reason of its own was begun by a node that the scheduler had told to end. A
    // scheduler that went on without that node ends because we tell it to: that is no reason.
    const bool told_to = stop_->terminated && ending.number == kExitTerminated;
    if (stop_->reason.empty() && !ending.by_signal && !told_to) {
      stop_->code = ending.good() ? kExitOk : CodeFor(ending);
    }
    return;
  }
  if (ending.good()) return BeginStop(kExitOk, "", kTermAfter);
  if (ending.by_signal || !result_.has_value()) return Fail(child, CodeFor(ending));
  BeginStop(CodeFor(ending), "", kTermAfter);
}

void Launcher::OnEnded(const Launched& child) {
  const Ending& ending = *child.ending();
  if (stop_.has_value() || result_.has_value() || ending.good()) return;
  const bool told_to = !ending.by_signal && ending.number != kExitInternal &&
                       ending.number != kExitConfig && IsDocumented(ending.number);
  const bool replicated = options_.config.cluster().replicas() > 1;
  if ((replicated || absl::StartsWith(child.name(), "worker")) && training_) {
    // The scheduler decides whether the rest go on.
    if (!told_to) console_->Line(absl::StrCat(child.label(), ": ", ending.ToString()));
  } else if (told_to) {
    // Before the start the scheduler would go on, and let another one take its place; a signal to
    // one of them is no signal to the job.
    const bool signalled = ending.number == kExitTerminated || ending.number == kExitInterrupted;
    BeginStop(signalled ? kExitPeerLost : CodeFor(ending), "", kSchedulerGrace);
    stop_->by = absl::StrCat(child.label(), " ended: ", ending.ToString());
  } else {
    Fail(child, CodeFor(ending));
  }
}

void Launcher::Fail(const Launched& child, int code) {
  const std::string what = absl::StrCat(child.label(), " failed: ", child.ending()->ToString());
  console_->EndProgress();
  console_->Line(absl::StrCat("soapstone: ", what, "; stopping the rest"));
  if (code != kExitConfig) {  // of that, the line was shown as it came
    console_->Line(absl::StrCat("its last lines (", child.log_path(), "):"));
    for (const std::string& line : child.last_lines()) console_->Line(absl::StrCat("  ", line));
  }
  const std::optional<EndedProcess> ended = EndedOf(child.name(), code);
  if (!ended.has_value()) return BeginStop(code, what, 0);
  // The scheduler ends the others, and tells everybody why.
  children_[0]->SignalWith(SIGTERM, SignalValueOf(*ended));
  BeginStop(code, what, kTermAfter);
}

void Launcher::BeginStop(int code, std::string reason, Nanos grace) {
  const Nanos now = NodeLoop::Now();
  stop_ = {.code = code,
           .reason = std::move(reason),
           .term_at = now + grace,
           .kill_at = now + grace + kKillAfter};
}

void Launcher::CarryOutStop() {
  if (!stop_.has_value()) return;
  const Nanos now = NodeLoop::Now();
  if (now >= stop_->term_at && !stop_->terminated) {
    stop_->terminated = true;
    for (const auto& child : children_) child->Signal(SIGTERM);
  }
  if (now < stop_->kill_at) return;
  for (const auto& child : children_) {
    if (child->ending().has_value()) continue;
    if (!stop_->killed) {
      console_->EndProgress();
      console_->Line(absl::StrCat(child->label(), ": killed, for it has not ended"));
    }
    child->Signal(SIGKILL);
  }
  stop_->killed = true;
}

bool Launcher::AllEnded() const {
  if (!stop_.has_value()) return false;
  return std::all_of(children_.begin(), children_.end(),
                     [](const auto& child) { return child->ending().has_value(); });
}

std::string Launcher::WriteFile(const char* name, const std::string& content) {
  std::string path = absl::StrCat(options_.log_dir, "/", name);
  const absl::Status written = WriteWholeFile(path, content);
  if (written.ok()) return path;
  unwritten_ = std::string(written.message());
  console_->Line(absl::StrCat("soapstone: ", unwritten_));
  return "";
}

void Launcher::EndPages() {
  if (pages_.empty()) return;
  const absl::StatusOr<std::string> said = ReadWholeFile(absl::StrCat(options_.log_dir, "/http"));
  if (said.ok() && *said == absl::StrCat(pages_, "\n")) WriteFile("http", "ended\n");
}

TableOptions Launcher::WriteResult() {
  TableOptions written = {.utf8 = options_.utf8};
  written.ledger_path = WriteFile("ledger.json", LedgerJson(*result_, nodes_) + "\n");
  if (result_->losses.size() > 1) {
    written.losses_path = WriteFile("loss.csv", LossesCsv(result_->losses));
  }
  if (result_->confusion.size() > kClassesShownMax) {
    written.confusion_path =
        WriteFile("confusion.csv", ConfusionCsv(result_->confusion, result_->class_names));
  }
  return written;
}

void Launcher::ShowEnd() {
  ReadChildren();
  const TableOptions written = result_.has_value() ? WriteResult() : TableOptions();
  if (stop_->code == kExitOk && result_.has_value()) {
    console_->Line(ToTable(*result_, nodes_, written));
    finished_ = true;
    if (unwritten_.empty()) return;
    stop_->code = kExitConfig;
    console_->Line(absl::StrCat("soapstone: ended with exit code ", kExitConfig, ": ", unwritten_));
    return;
  }
  const bool leave = result_.has_value() && !result_->leaving.empty();
  const bool goes_on = options_.replanner != nullptr && (leave || options_.replanner->found());
  if (replanned() && goes_on) return;
  std::string reason = stop_->reason;
  if (reason.empty())
    reason = !stop_->by.empty() || recent_news_.empty() ? stop_->by : recent_news_.back();
  if (stop_->reason.empty() && result_.has_value()) {
    reason = result_->code == stop_->code || stop_->by.empty() ? result_->reason : stop_->by;
  }
  console_->Line(absl::StrCat("soapstone: ended with exit code ", stop_->code, ": ", reason,
                              " (logs in ", options_.log_dir, ")"));
}

}  // namespace soapstone::apps
