// Recorder: an actor's file in the folder of a recording (cluster/recording_format.h). Who runs the
// actor tells it what the actor is about to handle, before what the actor answers leaves.
//
// The file is mapped into memory a window at a time, so an event costs a copy of 48 bytes; and what
// was written is in the file even when the process is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/job.h"
#include "cluster/recording_format.h"
#include "wire/message.h"

namespace soapstone::apps {

// What a folder needs before any actor's file: it is made where there is none, and gets the job.
// Called by the scheduler. Error: InvalidArgument, one line, when it cannot be written or holds a
// recording already: nothing is overwritten.
absl::Status BeginRecording(const wire::JobConfig& config);
// The same checks; writes nothing but the folder. By who starts the processes.
absl::Status CheckRecordingFolder(const wire::JobConfig& config);
// That it holds no recording yet, where it is there; writes nothing.
absl::Status CheckNoRecording(const wire::JobConfig& config);
// The hash the job ended with.
absl::Status WriteRecordedHash(const wire::JobConfig& config, const std::string& sha256);

class Recorder {
 public:
  // Null where the job is not recorded. A second process of the same rank gets a file of its own.
  // Error: InvalidArgument, one line.
  static absl::StatusOr<std::unique_ptr<Recorder>> Open(const Job& job, wire::Address actor,
                                                        uint64_t session);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // When the disk takes no more, the recording ends there, with one line in the log; the job goes
  // on.
  void Write(const sim::RecordedEvent& event);

 private:
  Recorder(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Makes the file longer by a window and maps it.
  absl::Status NextWindow();
  void CutShort(const absl::Status& why);
  void Unmap();
  void SetState(sim::RecordingState state) const;

  int fd_;
  std::string path_;
  std::byte* window_ = nullptr;
  size_t window_begin_ = 0;  // in the file
  size_t at_ = 0;            // in the window
  bool cut_short_ = false;
};

}  // namespace soapstone::apps
