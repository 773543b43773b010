// Recording: a recorded run, as read from its folder: what each actor handled, the job, and the
// hash it ended with. The shells write it (apps/loop/recorder.h), sim/replay.h runs it again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/recording_format.h"
#include "wire/message.h"

namespace soapstone::sim {

// One actor, in one process. A worker that took the place of a lost one is another.
struct RecordedActor {
  wire::Address address;
  std::string file;  // without its folder
  RecordingState state = RecordingState::kOpen;
  std::vector<RecordedEvent> events;
};

struct Recording {
  uint64_t job_digest = 0;
  uint64_t session = 0;
  std::vector<RecordedActor> actors;  // by file name
  uint64_t bytes = 0;                 // of their files
  std::string job_text;
  std::string sha256;  // empty: the run ended without saving

  uint64_t events() const;
};

// Errors: NotFound when the folder holds no recording; InvalidArgument when its files are of no
// recording or not of one run. A file that ends in the middle of an event has the events before.
absl::StatusOr<Recording> ReadRecording(const std::string& dir);

}  // namespace soapstone::sim
