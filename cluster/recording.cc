#include "cluster/recording.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "wire/frame.h"

namespace soapstone::sim {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 36;
constexpr size_t kHashDigits = 64;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  return ReadWholeFile(path, kFileBytesMax);
}

bool IsRole(uint32_t number) { return number <= static_cast<uint32_t>(wire::Role::kPeer); }

constexpr Nanos kNowMax = Nanos{1} << 61;  // differences and deadlines stay within 63 bits

// What a replay casts and compares is what it says it is.
bool IsWellFormed(const RecordedEvent& event) {
  const bool of_message = event.kind == EventKind::kMessage || event.kind == EventKind::kTold;
  if (!IsRole(static_cast<uint32_t>(event.role)) || event.final > 1) return false;
  if (event.now < -kNowMax || event.now > kNowMax) return false;
  if (event.type == wire::MessageType::kHello && !IsRole(event.bucket)) return false;
  return wire::IsKnown(event.type) || (!of_message && event.type == wire::MessageType::kNone);
}

struct EventsFile {
  uint64_t bytes = 0;
  RecordingHeader header;
  RecordedActor actor;
};

absl::StatusOr<EventsFile> ReadEvents(const std::string& path) {
  SOAP_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  EventsFile file = {.bytes = bytes.size()};
  const auto refuse = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  if (bytes.size() < kEventBytes) return refuse("is shorter than the header of a recording");
  std::memcpy(&file.header, bytes.data(), kEventBytes);
  if (file.header.magic != kRecordingMagic) return refuse("is no recording");
  if (file.header.event_bytes != kEventBytes || file.header.state > RecordingState::kCutShort) {
    return refuse("is a recording of another version");
  }
  if (!IsRole(file.header.role)) return refuse("is of an actor of an unknown role");
  file.actor.address = {static_cast<wire::Role>(file.header.role), file.header.index};
  file.actor.state = file.header.state;
  file.actor.events.reserve(bytes.size() / kEventBytes);
  for (size_t at = kEventBytes; at + kEventBytes <= bytes.size(); at += kEventBytes) {
    RecordedEvent event;
    std::memcpy(&event, bytes.data() + at, kEventBytes);
    if (event.kind == EventKind::kNone) break;
    if (event.kind > kLastEventKind) return refuse("has an event of an unknown kind");
    if (!IsWellFormed(event))
      return refuse("has an event of a message, a node or a time that is none");
    file.actor.events.push_back(event);
  }
  return file;
}

// As EventsFileName has it, of some instance.
bool IsNamedFor(absl::string_view name, wire::Address actor) {
  uint32_t instance = 0;
  if (name == EventsFileName(actor, 1)) return true;
  return absl::ConsumePrefix(&name, absl::StrCat(actor.ToString(), ".")) &&
         absl::ConsumeSuffix(&name, kEventsSuffix) && absl::SimpleAtoi(name, &instance);
}

absl::StatusOr<std::vector<std::string>> EventsFilesIn(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(dir, error);
  while (!error && entries != std::filesystem::directory_iterator()) {
    const std::string name = entries->path().filename().string();
    if (absl::EndsWith(name, kEventsSuffix)) names.push_back(name);
    entries.increment(error);
  }
  if (error) return absl::NotFoundError(absl::StrCat(dir, ": ", error.message()));
  if (names.empty()) return absl::NotFoundError(absl::StrCat(dir, " holds no recording"));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

uint64_t Recording::events() const {
  uint64_t events = 0;
  for (const RecordedActor& actor : actors) events += actor.events.size();
  return events;
}

absl::StatusOr<Recording> ReadRecording(const std::string& dir) {
  Recording recording;
  SOAP_ASSIGN_OR_RETURN(const std::vector<std::string> names, EventsFilesIn(dir));
  std::optional<RecordingHeader> first;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(dir, "/", name);
    SOAP_ASSIGN_OR_RETURN(EventsFile file, ReadEvents(path));
    if (!first.has_value()) first = file.header;
    if (file.header.session != first->session || file.header.job_digest != first->job_digest) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is of another run than ", names.front(), " beside it"));
    }
    if (!IsNamedFor(name, file.actor.address)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is of ", file.actor.address.ToString(), ", by its name of another"));
    }
    file.actor.file = name;
    recording.actors.push_back(std::move(file.actor));
    recording.bytes += file.bytes;
  }
  recording.session = first->session;
  recording.job_digest = first->job_digest;
  SOAP_ASSIGN_OR_RETURN(recording.job_text, ReadFile(absl::StrCat(dir, "/", kRecordedJobFile)));
  const std::string hash_path = absl::StrCat(dir, "/", kRecordedHashFile);
  const absl::StatusOr<std::string> hash = ReadFile(hash_path);
  if (!hash.ok()) return recording;  // the run ended without saving
  const absl::string_view digits = absl::StripSuffix(*hash, "\n");
  if (digits.size() == kHashDigits && absl::c_all_of(digits, absl::ascii_isxdigit)) {
    recording.sha256.assign(digits.begin(), digits.end());
    return recording;
  }
  return absl::InvalidArgumentError(absl::StrCat(hash_path, ": is no SHA-256 of a run"));
}

}  // namespace soapstone::sim
