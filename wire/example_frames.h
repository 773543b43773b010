// Messages of every type, and their frames, for the tests of what reads and writes them.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "wire/compact_header.h"
#include "wire/frame.h"
#include "wire/header_fields.h"
#include "wire/message.h"

namespace soapstone::wire {

inline constexpr Address kSender = {Role::kServer, 7};
inline constexpr HeaderFields kExampleFields = {.bucket = BucketId{6},
                                                .micro_batches = {3, 9},
                                                .micro_batch_count = 9,
                                                .samples = 64,
                                                .batch_samples = 128,
                                                .pushes = 17,
                                                .oldest = 0,
                                                .version = 21,
                                                .checksum = 22,
                                                .final = true,
                                                .parked_ns = 23,
                                                .queued_ns = 24};

inline Buffers Frames(const Message& message, Address sender) {
  Buffers frames = {Buffer::CopyOf(EncodeHeader(message, sender))};
  frames.insert(frames.end(), message.payload.begin(), message.payload.end());
  return frames;
}

// A message with every field set to something that is not its default; its body too, where that is
// the header's and none is given.
inline Message Example(MessageType type, Body body, Buffers payload = {}) {
  Message message;
  message.type = type;
  message.from = {Role::kShard, 15};
  message.to = {Role::kWorker, 4'000'000'000u};
  message.session = 0xFEDCBA9876543210u;
  message.epoch = 11;
  message.worker = WorkerId{5};
  message.clock = kClockMax;
  if (body.index() == 0) body = BodyFrom(type, kExampleFields);
  message.body = std::move(body);
  message.payload = std::move(payload);
  return message;
}

inline Progress ExampleProgress() {
  Progress progress = {7, 8, -0.125, 9, 10, 11, 12, 13, {1, 2, 0}, 14};
  progress.left_out = {{"w", 3, 2}, {"\xff", 1, 0}};
  progress.waiting = Waiting{.of = Address::Of(ShardId{3}), .clock = 4, .for_ns = 5, .asked = 6};
  progress.violations = 4;
  return progress;
}

inline ServerProgress ExampleReads() {
  return {{{ShardId{2}, 5, 2, 1, {{WorkerId{1}, 6, 3, 4, 2, 0}, {WorkerId{4}, -1, 1, 0, 0, 1500}}},
           {ShardId{3}, kClockMax, 1000, 6,
            std::vector<ReaderState>(7, {WorkerId{9}, 9, 8, 7, 6, 5})}}};
}

inline Roster ExampleRoster(const std::string& key) {
  return {{{WorkerId{0}, 1, 2, true, false, "", key}, {WorkerId{4}, 3, 4, false}},
          {{ServerId{0}, "tcp://a:1", key}, {ServerId{1}, "ipc:///tmp/\xff"}},
          5,
          2,
          {{3, {4, 0, 2, 1, 1}}, {9, {1, 1, 2, 0, 4}}},
          8,
          {{{{ServerId{1}, 3}, {ServerId{0}, 9}}}, {{{ServerId{0}, 1}}}}};
}

inline std::vector<Message> HandMadeExamples() {
  const Buffers payload = {Buffer::CopyOf("a slice of"), Buffer(), Buffer::CopyOf("floats")};
  const std::string key(kProcessKeyBytes, '\x90');
  const Hello hello = {Role::kWorker,        3,   "tcp://a:1", 99, 1u << 31,
                       "avx2, oneDNN 2.6.3", key, "n<b>"};
  const Progress progress = ExampleProgress();
  const Notice notice = {-3, "why"};
  return {
      Example(MessageType::kHello, hello),
      Example(MessageType::kWelcome, Welcome{2, 99}),
      Example(MessageType::kRefuse, notice),
      Example(MessageType::kRoster, ExampleRoster(key)),
      Example(MessageType::kRosterAck, {}),
      Example(MessageType::kStart, {}),
      Example(MessageType::kHeartbeat, {}),
      Example(MessageType::kHeartbeat, progress),
      Example(MessageType::kHeartbeat, SlowWork{7, 9}),
      Example(MessageType::kHeartbeat, ExampleReads()),
      Example(MessageType::kHeartbeatAck, {}),
      Example(MessageType::kDone, progress),
      Example(MessageType::kLeave, progress),
      Example(MessageType::kEvaluate, {}),
      Example(MessageType::kEvaluated, Evaluation{10, 9, 1.5}),
      Example(MessageType::kEvaluated, Evaluation{10, 9, 1.5}, payload),
      Example(MessageType::kSave, {}),
      Example(MessageType::kSlices, {}, payload),
      Example(MessageType::kSaved, Saved{"/m.safetensors", "ab12"}),
      Example(MessageType::kShutdown, notice),
      Example(MessageType::kBroken, notice),
      Example(MessageType::kNotFinite, NotFinite{3, true, "fc1.weight"}),
      Example(MessageType::kCheckpoint, {}),
      Example(MessageType::kCaptured, {}),
      Example(MessageType::kAskLeave, {}),
      Example(MessageType::kMayLeave, {}),
      Example(MessageType::kRecord, Record{1, 2, 3, 4, -5}, payload),
      Example(MessageType::kRecorded, Recorded{6, 7}),
      Example(MessageType::kLinkLost, LostLink{Address::Of(ServerId{2}), "why"}),
      Example(MessageType::kPush, {}, payload),
      Example(MessageType::kClock, {}),
      Example(MessageType::kPull, {}),
      Example(MessageType::kPullReply, {}, payload),
      Example(MessageType::kReject, notice),
      Example(MessageType::kParcel,
              Parcel{.sequence = uint64_t{3} << 40 | 7,
                     .step = 2,
                     .begin = 5,
                     .end = 9,
                     .weight = 0.25,
                     .samples = 3,
                     .checksum = 4},
              {Buffer::CopyOf("abcd")}),
      Example(MessageType::kState, Parcel{.end = 4, .weight = 0.5}, {Buffer::CopyOf("ab")}),
      Example(MessageType::kFinished, Parcel{}),
      Example(MessageType::kHeld, {}),
      Example(MessageType::kChosen, WorkerSet{{WorkerId{0}, WorkerId{3}}}),
      Example(MessageType::kStanding, Parcel{.has_values = true, .finished = true}),
      Example(MessageType::kBlock, Block{}, {Buffer::CopyOf("abcd")}),
      Example(MessageType::kLoaded, {}),
  };
}

template <class B>
void AddFlat(MessageType type, std::vector<Message>* examples) {
  if constexpr (FlatBody<B>) {
    const Message message = Example(type, B());
    if (Validate(message).ok()) examples->push_back(message);
  }
}

template <class... Bodies>
void AddFlatOf(MessageType type, const std::variant<Bodies...>* /*all*/,
               std::vector<Message>* examples) {
  (AddFlat<Bodies>(type, examples), ...);
}

// Of each type one at least: where none is made by hand, with the flat body that it takes.
inline std::vector<Message> Examples() {
  std::vector<Message> examples = HandMadeExamples();
  std::set<MessageType> types;
  for (const Message& message : examples) types.insert(message.type);
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<MessageType>(number);
    if (!types.contains(type)) AddFlatOf(type, static_cast<const Body*>(nullptr), &examples);
  }
  return examples;
}

inline Buffers LocalFrames(const Message& message) {
  std::string header = "left over";
  EncodeLocalHeader(message, kSender, &header);
  Buffers frames = {Buffer::CopyOf(header)};
  frames.insert(frames.end(), message.payload.begin(), message.payload.end());
  return frames;
}

}  // namespace soapstone::wire
