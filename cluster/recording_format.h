// The bytes of a recording: what an actor handled, in the order in which it handled it. An actor is
// a function of (state, message, now), so this is all that is needed to run it again
// (sim/replay.h): messages are named here, not kept; their senders will send them again.
// The shells' recorder writes it (apps/loop/recorder.h), cluster/recording.h reads it.
//
// A file for each actor, little-endian: slots of 48 bytes. Slot 0 is the header, each further one
// an event. What follows the last event is zeros (the file grows in steps), so that an event is
// there once its first byte, the kind, is not zero; the writer stores that byte last.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "wire/message.h"
#include "worker/device/device.h"

namespace soapstone::sim {

inline constexpr size_t kEventBytes = 48;
inline constexpr std::array<char, 8> kRecordingMagic = {'S', 'O', 'A', 'P', 'R', 'E', 'C', '2'};

// In the folder of a recording, beside the files of the actors.
inline constexpr char kRecordedJobFile[] = "recorded-job.textproto";
inline constexpr char kRecordedHashFile[] = "recorded-sha256";
inline constexpr char kEventsSuffix[] = ".events";

// "worker-1.events"; "worker-1.2.events" for the second process that stood for worker 1.
std::string EventsFileName(wire::Address actor, uint32_t instance);

enum class EventKind : uint8_t {
  kNone = 0,     // nothing was written here
  kStart = 1,    // coordinator: starts
  kMessage = 2,  // any: handles a message
  kDevice = 3,   // engine: hears of its device
  kTimer = 4,    // coordinator: timer `index` is due; engine: its own
  kLost = 5,     // coordinator: node (role, index) is gone, heard last in epoch `check`
  kAbort = 6,    // coordinator: ends the job with code `clock`
  kLeave = 7,    // engine: is asked to leave
  kTold = 8,     // worker: its process, not its actor, tells the scheduler of its progress
  kEnded = 9,    // coordinator: the connection to node (role, index) has ended
};
inline constexpr EventKind kLastEventKind = EventKind::kEnded;

struct RecordedEvent {
  EventKind kind = EventKind::kNone;
  wire::MessageType type = wire::MessageType::kNone;
  wire::Role role = wire::Role::kNone;  // of the sender, with `index`
  uint8_t final = 0;                    // as in the message
  uint32_t index = 0;
  Nanos now = 0;
  Clock clock = 0;      // of the message; kDevice: compute_ns; hello: the rank wanted
  uint64_t check = 0;   // ContentOf the message; kDevice: injected_ns; hello: its nonce
  uint32_t epoch = 0;   // low half; kDevice: instruction; hello: stands for its arithmetic
  uint32_t bucket = 0;  // kDevice: CheckOf its frames; hello: role
  MicroBatchRange
      micro_batches;  // kDevice: run; hello: digest of the configuration; low half first
  wire::Address from() const { return {role, index}; }
  friend bool operator==(const RecordedEvent&, const RecordedEvent&) = default;
};
static_assert(sizeof(RecordedEvent) == kEventBytes);
static_assert(std::is_trivially_copyable_v<RecordedEvent>);
static_assert(std::endian::native == std::endian::little, "recordings are little-endian");

enum class RecordingState : uint32_t {
  kOpen = 0,      // the process was killed, or still runs
  kClosed = 1,    // to its actor's end
  kCutShort = 2,  // the disk took no more
};

struct RecordingHeader {
  std::array<char, 8> magic = kRecordingMagic;
  uint32_t event_bytes = kEventBytes;
  RecordingState state = RecordingState::kOpen;
  uint64_t job_digest = 0;  // of the job's meaning, its data included
  uint64_t session = 0;     // of the run
  uint32_t role = 0;        // of the actor
  uint32_t index = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(RecordingHeader) == kEventBytes);
static_assert(std::is_trivially_copyable_v<RecordingHeader>);

// ---- Events of what happens

RecordedEvent EventOf(Nanos now, const wire::Message& message);
RecordedEvent EventOf(Nanos now, const worker::DeviceEvent& event);
// A message that the process of a worker sends of itself, with the engine's progress as its body.
RecordedEvent ToldEvent(Nanos now, const wire::Message& message);

// ---- And back

// The header fields that an event keeps; of a hello, a bound and a server's heartbeat the body too.
wire::Message MessageOf(const RecordedEvent& event, wire::Address to);
// Whether the message is the one of the event by its names: type, sender, epoch, clock, bucket,
// leaves. Contents may differ.
bool IsNamed(const RecordedEvent& event, const wire::Message& message);
uint64_t RunOf(const RecordedEvent& device_event);

// Stands for what a message says. Of its payload a few words of each buffer are looked at: other
// parameters differ nearly everywhere, and all of it would cost time. Sessions and endpoints, which
// differ from run to run, are left out.
uint64_t ContentOf(const wire::Message& message);
uint32_t CheckOf(const Buffers& frames);

}  // namespace soapstone::sim
