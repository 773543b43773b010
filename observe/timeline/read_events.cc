#include "observe/timeline/read_events.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace soapstone::timeline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesMax = 100'000;

bool ReadAt(int fd, size_t at, void* to, size_t bytes) {
  auto* place = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd, place, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    at += static_cast<size_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool IsSensible(const Event& event) {
  constexpr Nanos kMost = Nanos{1} << 59;
  const auto kind = static_cast<uint32_t>(event.kind);
  return kind > 0 && kind < kKinds && event.begin_ns >= -kMost && event.end_ns <= kMost &&
         event.begin_ns <= event.end_ns && event.clock >= 0 && event.clock <= kClockMax;
}

bool IsSensible(const FileHeader& header, size_t file_bytes) {
  return header.magic == kMagic && header.event_bytes == sizeof(Event) &&
         static_cast<uint32_t>(header.kind) < kThreadKinds && header.capacity > 0 &&
         header.capacity <= kCapacityMax && header.names_bytes <= kNamesBytesMax &&
         file_bytes == FileBytes(header.names_bytes, header.capacity);
}

}  // namespace

absl::StatusOr<ThreadEvents> ReadEventFile(const std::string& path, const ClockRange& clocks) {
  const auto damaged = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return damaged(std::strerror(errno));
  const absl::Cleanup closes = [fd] { close(fd); };
  struct stat about = {};
  FileHeader header;
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) ||
      !ReadAt(fd, 0, &header, sizeof(header)) ||
      !IsSensible(header, static_cast<size_t>(about.st_size))) {
    return damaged("no file of events, or damaged");
  }
  ThreadEvents thread = {
      .kind = header.kind,
      .index = header.index,
      .session = header.session,
      .machine = header.machine,
      .host = {header.host.data(), strnlen(header.host.data(), header.host.size())}};
  thread.written = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::string names(header.names_bytes, '\0');
  std::vector<Event> slots(header.capacity);
  // Written by another process meanwhile: how far, before and after.
  if (!ReadAt(fd, offsetof(FileHeader, written), &header.written, sizeof(header.written)) ||
      !ReadAt(fd, kNamesAt, names.data(), names.size()) ||
      !ReadAt(fd, SlotsAt(header.names_bytes), slots.data(), slots.size() * sizeof(Event))) {
    return damaged("cut off");
  }
  uint64_t after = 0;
  if (!ReadAt(fd, offsetof(FileHeader, written), &after, sizeof(after))) return damaged("cut off");
  const WholeEvents whole = WholeEventsOf(header.written, after, header.capacity);
  if (whole.end - whole.begin > header.capacity) return damaged("it counts more than it holds");
  for (uint64_t i = whole.begin; i < whole.end; ++i) {
    const Event& event = slots[i % header.capacity];
    if (!IsSensible(event)) continue;
    if (header.kind == ThreadKind::kPlanned) {
      thread.events.push_back(event);
      continue;
    }
    thread.latest = std::max(thread.latest, event.clock);
    if (clocks.Has(event.clock)) thread.events.push_back(event);
  }
  thread.lost = whole.begin;
  if (!names.empty()) thread.names = absl::StrSplit(names, '\n');
  return thread;
}

absl::StatusOr<FolderEvents> ReadFolder(const std::string& folder, const ClockRange& clocks) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, std::string>> files;  // by age, then name
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (!absl::EndsWith(entries->path().filename().string(), kEventsSuffix)) continue;
    std::error_code gone;
    files.emplace_back(fs::last_write_time(entries->path(), gone), entries->path().string());
    if (files.size() >= kFilesMax) break;
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat(folder, ": ", error.message()));
  FolderEvents all;
  std::map<uint64_t, fs::file_time_type> sessions;
  for (const auto& [time, path] : files) {
    absl::StatusOr<ThreadEvents> thread = ReadEventFile(path, clocks);
    if (!thread.ok()) {
      all.notes.emplace_back(thread.status().message());
      continue;
    }
    fs::file_time_type& latest = sessions.try_emplace(thread->session, time).first->second;
    latest = thread->written ? fs::file_time_type::max() : std::max(latest, time);
    all.threads.push_back(*std::move(thread));
  }
  if (all.threads.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, " holds no events: it is the folder that --timeline of `soapstone train` names",
        all.notes.empty() ? "" : absl::StrCat(" (", all.notes.front(), ")")));
  }
  const auto last =
      std::max_element(sessions.begin(), sessions.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::erase_if(all.threads,
                [&](const ThreadEvents& thread) { return thread.session != last->first; });
  std::sort(all.threads.begin(), all.threads.end(),
            [](const ThreadEvents& a, const ThreadEvents& b) {
              return std::pair(a.kind, a.index) < std::pair(b.kind, b.index);
            });
  if (sessions.size() > 1) {
    all.notes.push_back(
        absl::StrCat("files of ", sessions.size() - 1, " other jobs are left aside"));
  }
  return all;
}

}  // namespace soapstone::timeline
