#include "observe/timeline/event_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fingerprint.h"
#include "base/status_macros.h"

namespace soapstone::timeline {
namespace {

constexpr uint32_t kInstancesMax = 10'000;  // processes that stood for one rank

absl::Status Error(const std::string& path, const char* what, int number) {
  return absl::InvalidArgumentError(
      absl::StrCat("output.timeline_path: cannot ", what, " ", path, ": ", std::strerror(number)));
}

const char* StemOf(ThreadKind kind) {
  switch (kind) {
    case ThreadKind::kWorkerLoop:
      return "worker-loop-";
    case ThreadKind::kWorkerDevice:
      return "worker-device-";
    case ThreadKind::kShard:
      return "shard-";
    case ThreadKind::kPlanned:
      return "worker-planned-";
  }
  return "thread-";
}

// Of the file at `path`, if it has one.
uint64_t SessionAt(const std::string& path) {
  FileHeader header;
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  return file && header.magic == kMagic ? header.session : 0;
}

// The first that no process of this session has.
std::string PathOf(const EventFileOptions& options) {
  std::string path;
  for (uint32_t instance = 1; instance <= kInstancesMax; ++instance) {
    path = absl::StrCat(options.folder, "/", StemOf(options.kind), options.index,
                        instance > 1 ? absl::StrCat(".", instance) : "", kEventsSuffix);
    std::error_code error;
    const bool there = std::filesystem::exists(path, error);
    if (!there || SessionAt(path) != options.session) break;
  }
  return path;
}

FileHeader HeaderOf(const EventFileOptions& options, size_t names_bytes) {
  FileHeader header = {.magic = kMagic,
                       .kind = options.kind,
                       .index = options.index,
                       .names_bytes = static_cast<uint32_t>(names_bytes),
                       .capacity = options.capacity,
                       .session = options.session,
                       .machine = ThisMachine()};
  const std::string host = ThisHost();
  std::memcpy(header.host.data(), host.data(), std::min(host.size(), header.host.size() - 1));
  return header;
}

}  // namespace

uint64_t ThisMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  if (id.empty()) id = ThisHost();
  // Containers of one machine may have clocks of their own.
  std::error_code none;
  const std::filesystem::path clocks = std::filesystem::read_symlink("/proc/self/ns/time", none);
  Fingerprint f;
  f.Add(id);
  f.Add(clocks.string());
  return f.value().first;
}

std::string ThisHost() {
  std::array<char, 64> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

EventFile::EventFile(int fd, std::byte* map, size_t bytes, const EventFileOptions& options)
    : fd_(fd),
      map_(map),
      bytes_(bytes),
      clocks_(options.clocks),
      ring_({reinterpret_cast<Event*>(
                 map + SlotsAt(reinterpret_cast<const FileHeader*>(map)->names_bytes)),
             options.capacity},
            &reinterpret_cast<FileHeader*>(map)->written) {}

EventFile::~EventFile() {
  munmap(map_, bytes_);
  close(fd_);
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Make(const EventFileOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return Error(options.folder, "make", error.value());
  std::string names = absl::StrJoin(options.names, "\n");
  names.resize(std::min<size_t>(names.size(), kNamesBytesMax));
  const size_t bytes = FileBytes(static_cast<uint32_t>(names.size()), options.capacity);
  const std::string path = PathOf(options);
  // Beside, then in its place: a file that another process has mapped must not become shorter.
  const std::string fresh = absl::StrCat(path, ".new.", getpid());
  const int fd = open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Error(path, "make", errno);
  // Reserved, not only sized: on a full disk a store into the map would kill the process.
  const int reserved = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* const map =
      reserved != 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    const absl::Status why = Error(path, "write", reserved != 0 ? reserved : errno);
    close(fd);
    unlink(fresh.c_str());
    return why;
  }
  flock(fd, LOCK_EX | LOCK_NB);
  const FileHeader header = HeaderOf(options, names.size());
  std::memcpy(map, &header, sizeof(header));
  std::memcpy(static_cast<std::byte*>(map) + kNamesAt, names.data(), names.size());
  std::unique_ptr<EventFile> file(new EventFile(fd, static_cast<std::byte*>(map), bytes, options));
  if (std::rename(fresh.c_str(), path.c_str()) == 0) return file;
  const absl::Status why = Error(path, "make", errno);
  unlink(fresh.c_str());
  return why;
}

}  // namespace soapstone::timeline
