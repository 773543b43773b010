// Recordings (cluster/recording.h). Input: the size of the first of two actors' files, and both.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cluster/recording.h"
#include "cluster/recording_format.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

namespace fs = std::filesystem;

// A folder in memory, for as long as the process lives.
class RecordingFolder {
 public:
  RecordingFolder() {
    std::string name = fs::exists("/dev/shm") ? "/dev/shm/recording-XXXXXX" : "recording-XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    dir_ = name;
    Put(sim::kRecordedJobFile, "model: \"mlp\"\n");
    Put(sim::kRecordedHashFile, std::string(64, '0') + "\n");
  }
  ~RecordingFolder() { fs::remove_all(dir_); }
  void Put(const std::string& name, std::string_view bytes) const {
    std::ofstream(dir_ + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
  }
  const std::string& dir() const { return dir_; }

 private:
  std::string dir_;
};

// By its header, as it has to be.
std::string NameFor(std::string_view bytes, uint32_t instance) {
  sim::RecordingHeader header;
  if (bytes.size() < sizeof(header)) return absl::StrCat("scheduler.", instance, ".events");
  std::memcpy(&header, bytes.data(), sizeof(header));
  return sim::EventsFileName({static_cast<wire::Role>(header.role), header.index}, instance);
}

void Read(FuzzInput input) {
  static const RecordingFolder folder;
  const std::string_view first = input.Bytes(input.Take<uint16_t>());
  const std::string_view second = input.Rest();
  const std::string names[] = {NameFor(first, 1), NameFor(second, 2)};
  folder.Put(names[0], first);
  folder.Put(names[1], second);
  const absl::Cleanup removes = [&names] {
    for (const std::string& name : names) fs::remove(folder.dir() + "/" + name);
  };
  const absl::StatusOr<sim::Recording> recording = sim::ReadRecording(folder.dir());
  if (!recording.ok()) return CheckError(recording.status(), folder.dir());
  for (const sim::RecordedActor& actor : recording->actors) {
    CHECK(!actor.address.ToString().empty());
    for (const sim::RecordedEvent& event : actor.events) {
      if (event.kind != sim::EventKind::kMessage) continue;
      const wire::Message message = sim::MessageOf(event, actor.address);
      CHECK(!wire::ToString(message).empty());
      // Where the event is the body itself (a Hello, a server's slow work), its fields are no
      // clock. Fields that the type does not have name no message.
      if (std::holds_alternative<wire::Hello>(message.body)) continue;
      if (std::holds_alternative<wire::SlowWork>(message.body)) continue;
      CHECK(sim::IsNamed(sim::EventOf(event.now, message), message));
    }
  }
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Read({data, size});
  return 0;
}
