#include "apps/loop/recorder.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/job_paths.h"

namespace soapstone::apps {
namespace {

using sim::kEventBytes;

// Divides by the size of a page and by that of an event: no event lies across two windows.
constexpr size_t kWindowBytes = 16 * 4096 * 3;
static_assert(kWindowBytes % kEventBytes == 0);
constexpr uint32_t kInstancesMax = 10'000;  // processes that stood for one rank

absl::Status Error(const std::string& path, const char* what, int number) {
  return absl::InvalidArgumentError(
      absl::StrCat("output.record_path: ", what, " ", path, ": ", std::strerror(number)));
}

absl::Status WriteNewFile(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return Error(path, "cannot make", errno);
  const ssize_t written = write(fd, text.data(), text.size());
  const int number = written < 0 ? errno : ENOSPC;
  close(fd);
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return Error(path, "cannot write", number);
}

bool IsOfARecording(const std::string& name) {
  return absl::EndsWith(name, sim::kEventsSuffix) || name == sim::kRecordedJobFile ||
         name == sim::kRecordedHashFile;
}

absl::Status MakeFolder(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return Error(dir, "cannot make", error.value());
  if (access(dir.c_str(), W_OK | X_OK) != 0) return Error(dir, "cannot write to", errno);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRecordingFolder(const wire::JobConfig& config) {
  SOAP_RETURN_IF_ERROR(MakeFolder(config.output().record_path()));
  return CheckNoRecording(config);
}

absl::Status CheckNoRecording(const wire::JobConfig& config) {
  const std::string& dir = config.output().record_path();
  std::error_code error;
  if (dir.empty() || !std::filesystem::exists(dir, error)) return absl::OkStatus();
  std::filesystem::directory_iterator entries(dir, error);
  while (!error && entries != std::filesystem::directory_iterator()) {
    if (IsOfARecording(entries->path().filename().string())) {
      return absl::InvalidArgumentError(absl::StrCat("output.record_path: ", dir,
                                                     " holds a recording already: give a new or an "
                                                     "empty folder"));
    }
    entries.increment(error);
  }
  return error ? Error(dir, "cannot read", error.value()) : absl::OkStatus();
}

absl::Status BeginRecording(const wire::JobConfig& config) {
  SOAP_RETURN_IF_ERROR(CheckRecordingFolder(config));
  wire::JobConfig job = config;
  job.clear_output();
  ToFolder(config.output().record_path(), &job);
  return WriteNewFile(absl::StrCat(config.output().record_path(), "/", sim::kRecordedJobFile),
                      JobText(job));
}

absl::Status WriteRecordedHash(const wire::JobConfig& config, const std::string& sha256) {
  return WriteNewFile(absl::StrCat(config.output().record_path(), "/", sim::kRecordedHashFile),
                      absl::StrCat(sha256, "\n"));
}

namespace {

// A recording that this very job has begun.
bool IsOf(const std::string& path, uint64_t job_digest, uint64_t session) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  sim::RecordingHeader header;
  const bool whole = read(fd, &header, sizeof(header)) == ssize_t{sizeof(header)};
  close(fd);
  return whole && header.job_digest == job_digest && header.session == session;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Open(const Job& job, wire::Address actor,
                                                         uint64_t session) {
  const std::string& dir = job.config.output().record_path();
  if (dir.empty()) return nullptr;
  SOAP_RETURN_IF_ERROR(MakeFolder(dir));
  // A worker, and the peer beside it, can have had a predecessor in the same job. So can a server,
  // before the start: of that nothing is replayed.
  const bool may_follow = actor.role == wire::Role::kWorker || actor.role == wire::Role::kPeer;
  int fd = -1;
  std::string path;
  for (uint32_t instance = 1; fd < 0 && instance <= kInstancesMax; ++instance) {
    path = absl::StrCat(dir, "/", sim::EventsFileName(actor, instance));
    if (actor.role == wire::Role::kShard && IsOf(path, job.digest, session)) unlink(path.c_str());
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && (errno != EEXIST || !may_follow)) break;
  }
  if (fd < 0) return Error(path, "cannot make", errno);
  std::unique_ptr<Recorder> recorder(new Recorder(fd, path));
  const absl::Status mapped = recorder->NextWindow();
  if (!mapped.ok()) return mapped;
  const sim::RecordingHeader header = {.job_digest = job.digest,
                                       .session = session,
                                       .role = static_cast<uint32_t>(actor.role),
                                       .index = actor.index};
  std::memcpy(recorder->window_, &header, sizeof(header));
  recorder->at_ = kEventBytes;
  return recorder;
}

Recorder::~Recorder() {
  const size_t size = window_begin_ + at_;
  Unmap();
  if (!cut_short_) {
    if (ftruncate(fd_, static_cast<off_t>(size)) != 0) PLOG(WARNING) << path_;
    SetState(sim::RecordingState::kClosed);
  }
  close(fd_);
}

void Recorder::Write(const sim::RecordedEvent& event) {
  if (cut_short_) return;
  if (at_ == kWindowBytes) {
    if (const absl::Status mapped = NextWindow(); !mapped.ok()) return CutShort(mapped);
  }
  std::byte* slot = window_ + at_;
  std::array<std::byte, kEventBytes> bytes;
  std::memcpy(bytes.data(), &event, kEventBytes);
  // The kind is stored last: an event is there whole or not at all, whenever the process is killed.
  std::memcpy(slot + 1, bytes.data() + 1, kEventBytes - 1);
  std::atomic_ref<std::byte>(*slot).store(bytes[0], std::memory_order_release);
  at_ += kEventBytes;
}

absl::Status Recorder::NextWindow() {
  const size_t begin = window_ == nullptr ? 0 : window_begin_ + kWindowBytes;
  // Reserved, not only sized: on a full disk a store into the window would kill the process.
  const int error = posix_fallocate(fd_, static_cast<off_t>(begin), kWindowBytes);
  if (error != 0) return Error(path_, "cannot write", error);
  void* window = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                      static_cast<off_t>(begin));
  if (window == MAP_FAILED) return Error(path_, "cannot map", errno);
  Unmap();
  window_ = static_cast<std::byte*>(window);
  window_begin_ = begin;
  at_ = 0;
  return absl::OkStatus();
}

void Recorder::CutShort(const absl::Status& why) {
  cut_short_ = true;
  LOG(ERROR) << "the recording ends early: " << why.message();
  SetState(sim::RecordingState::kCutShort);
}

void Recorder::Unmap() {
  if (window_ != nullptr) munmap(window_, kWindowBytes);
  window_ = nullptr;
}

void Recorder::SetState(sim::RecordingState state) const {
  const ssize_t written = pwrite(fd_, &state, sizeof(state), offsetof(sim::RecordingHeader, state));
  if (written != sizeof(state)) PLOG(WARNING) << path_;
}

}  // namespace soapstone::apps
