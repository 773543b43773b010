// Files of a timeline (observe/timeline/event_file_format.h), and the picture of what is in them.
// Input: the size of the first of two files, and both.
#include <nlohmann/json.hpp>

#include "observe/timeline/draw_timeline.h"
#include "observe/timeline/read_events.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void Draw(FuzzInput input) {
  constexpr size_t kBytesMax = 128 << 10;  // so that some of what is found has no room
  MemoryFile files[2];
  std::vector<timeline::ThreadEvents> threads;
  const auto take = [&](std::string_view bytes, MemoryFile* file) {
    const std::string& path = file->With(bytes);
    absl::StatusOr<timeline::ThreadEvents> thread = timeline::ReadEventFile(path);
    if (!thread.ok()) return CheckError(thread.status(), path);
    CHECK_LE(thread->events.size() * sizeof(timeline::Event), bytes.size());
    threads.push_back(*std::move(thread));
  };
  take(input.Bytes(input.Take<uint16_t>()), &files[0]);
  take(input.Rest(), &files[1]);
  const timeline::Timeline drawn = timeline::DrawTimeline(threads, {}, kBytesMax);
  CHECK_LE(drawn.text.size(), kBytesMax);
  CHECK(nlohmann::json::accept(drawn.text)) << drawn.text;
  CHECK_LE(drawn.flows, drawn.pushes);
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Draw({data, size});
  return 0;
}
