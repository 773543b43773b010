#include "tests/fuzz/corpus_messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "transport/tcp/stream_channel.h"
#include "wire/compact_header.h"
#include "wire/frame.h"

namespace soapstone::fuzz {
namespace {

wire::Message MessageOf(wire::MessageType type, wire::Address from, wire::Address to,
                        wire::Body body = {}, const std::vector<size_t>& payload = {}) {
  wire::Message message;
  message.type = type;
  message.from = from;
  message.to = to;
  message.session = 0x0123456789abcdef;
  message.epoch = 3;
  message.worker = WorkerId{1};
  message.clock = 5;
  message.body = std::move(body);
  for (const size_t size : payload) {
    message.payload.push_back(Buffer::CopyOf(std::string(size, 'p')));
  }
  return message;
}

std::string FrameInput(uint8_t flags, const wire::Message& message, const std::string& header) {
  std::string input = Bytes(flags) + Bytes(static_cast<uint8_t>(message.payload.size()));
  for (const Buffer& frame : message.payload) input += Bytes(static_cast<uint16_t>(frame.size()));
  return input + header;
}

// What a channel writes of these messages.
std::string StreamOf(const std::vector<std::pair<uint32_t, std::vector<size_t>>>& messages) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  BufferPool pool;
  std::string bytes;
  {
    transport::StreamChannel channel(1, {}, &pool);
    CHECK(channel.Attach(ends[0], {.self = 2}));
    for (const auto& [priority, sizes] : messages) {
      Buffers payload;
      for (const size_t size : sizes) payload.push_back(Buffer::CopyOf(std::string(size, 'x')));
      CHECK(channel.Send("header", payload, priority).ok());
    }
    char chunk[4096];
    for (ssize_t got = 1; got > 0;) {
      channel.Flush();
      got = recv(ends[1], chunk, sizeof(chunk), MSG_DONTWAIT);
      if (got > 0) bytes.append(chunk, static_cast<size_t>(got));
    }
  }
  close(ends[1]);
  return bytes;
}

std::string ChunkHead(const char* magic, uint32_t bytes, uint32_t header_bytes, uint32_t frames) {
  return magic + Bytes(bytes) + Bytes(header_bytes) + Bytes(frames);
}

struct Ref {
  uint64_t segment, offset, size;
};

std::string Record(uint32_t header_bytes, uint32_t lease, uint32_t flags,
                   const std::vector<Ref>& refs, const std::string& body) {
  std::string bytes = Bytes(header_bytes) +
                      Bytes(static_cast<uint32_t>((flags & 1) != 0 ? 1 : refs.size())) +
                      Bytes(lease) + Bytes(flags);
  for (const Ref& ref : refs) bytes += Bytes(ref);
  return bytes + body;
}

std::string Step(char what, const std::string& bytes) { return std::string(1, what) + bytes; }
std::string PutRecord(const std::string& record) {
  return Step(0, Bytes(static_cast<uint16_t>(record.size())) + record);
}

}  // namespace

std::vector<Sent> Messages() {
  using wire::MessageType;
  const wire::Address worker = wire::Address::Of(WorkerId{1});
  const wire::Address server = wire::Address::Of(ServerId{0});
  const wire::Address shard = wire::Address::Of(ShardId{0});
  const wire::Address peer = wire::Address::PeerOf(WorkerId{1});
  const wire::Address scheduler = wire::Address::Scheduler();
  const wire::Hello hello = {wire::Role::kWorker, -1, "tcp://10.0.0.1:7070", 99, 1u << 31};
  const wire::Roster roster = {{{WorkerId{0}, 1, 2, true, false}, {WorkerId{4}, 3, 4, false, true}},
                               {{ServerId{0}, "tcp://10.0.0.1:7071"}},
                               5,
                               2,
                               {{3, {4, 0, 2, 1, 1}}},
                               8};
  const wire::Progress progress = {7, 8, 0.125, 9, 10, 11, 12, 13, {1, 2, 0}, 14};
  const wire::ServerProgress reads = {
      {{ShardId{0}, 5, 2, 1, {{WorkerId{0}, 6, 3, 4, 2, 0}, {WorkerId{1}, 5, 1, 0, 0, 1500}}}}};
  const wire::Push push = {.bucket = BucketId{2},
                           .micro_batches = {1, 3},
                           .micro_batch_count = 4,
                           .samples = 32,
                           .batch_samples = 64};
  return {
      {"hello", worker, MessageOf(MessageType::kHello, worker, scheduler, hello)},
      {"welcome", scheduler,
       MessageOf(MessageType::kWelcome, scheduler, worker, wire::Welcome{2, 9})},
      {"roster", scheduler, MessageOf(MessageType::kRoster, scheduler, worker, roster)},
      {"heartbeat", worker, MessageOf(MessageType::kHeartbeat, worker, scheduler, progress)},
      {"reads", server, MessageOf(MessageType::kHeartbeat, server, scheduler, reads)},
      {"done", worker, MessageOf(MessageType::kDone, worker, scheduler, progress)},
      {"evaluated", worker,
       MessageOf(MessageType::kEvaluated, worker, scheduler, wire::Evaluation{3, 2, 0.5})},
      {"saved", server,
       MessageOf(MessageType::kSaved, server, scheduler, wire::Saved{"model.safetensors", "00"})},
      {"checkpoint", scheduler, MessageOf(MessageType::kCheckpoint, scheduler, shard, {})},
      {"bound", scheduler, MessageOf(MessageType::kBound, scheduler, worker, wire::Bound{3})},
      {"bounded", worker, MessageOf(MessageType::kBounded, worker, scheduler, wire::Bound{3})},
      {"ask-leave", worker, MessageOf(MessageType::kAskLeave, worker, scheduler, {})},
      {"may-leave", scheduler, MessageOf(MessageType::kMayLeave, scheduler, worker, {})},
      {"captured", server, MessageOf(MessageType::kCaptured, shard, scheduler, {})},
      {"written", server,
       MessageOf(MessageType::kWritten, shard, scheduler, wire::Written{64, -1, ""}, {8})},
      {"shutdown", scheduler,
       MessageOf(MessageType::kShutdown, scheduler, worker, wire::Notice{0, "the job is over"})},
      {"push", worker, MessageOf(MessageType::kPush, worker, shard, push, {8, 16})},
      {"clock", worker, MessageOf(MessageType::kClock, worker, shard, wire::Completion{6})},
      {"pull", worker, MessageOf(MessageType::kPull, worker, shard, wire::Pull{true}, {8})},
      {"pull-reply", server,
       MessageOf(MessageType::kPullReply, shard, worker, wire::PullReply{.oldest = 4}, {4, 0, 12})},
      {"save", server, MessageOf(MessageType::kSave, server, shard, wire::Save{BucketId{2}})},
      {"slices", server,
       MessageOf(MessageType::kSlices, shard, server, wire::Slices{BucketId{2}, 5}, {4})},
      {"reject", server, MessageOf(MessageType::kReject, shard, worker, wire::Notice{1, "old"})},
      {"chosen", server,
       MessageOf(MessageType::kChosen, shard, wire::Address::Of(ShardId{1}),
                 wire::WorkerSet{{WorkerId{0}, WorkerId{3}}})},
      {"parcel", worker,
       MessageOf(MessageType::kParcel, peer, wire::Address::PeerOf(WorkerId{0}),
                 wire::Parcel{1, 2, 3, 4, 0.5, true, false}, {4})},
  };
}

void Frames(const Corpus& corpus) {
  for (const auto& [name, sender, message] : Messages()) {
    const std::string header = wire::EncodeHeader(message, sender);
    corpus.Put("frame", absl::StrCat("wire-", name), FrameInput(0, message, header));
    corpus.Put("frame", name, FrameInput(2, message, header.substr(wire::kFramePrefixBytes)));
    std::string compact;
    wire::EncodeLocalHeader(message, sender, &compact);
    if (compact != header)
      corpus.Put("frame", absl::StrCat("local-", name), FrameInput(1, message, compact));
  }
}

void Streams(const Corpus& corpus) {
  const std::string whole = Bytes(uint16_t{65535}), pieces = Bytes(uint16_t{6});
  corpus.Put("stream", "small", whole + StreamOf({{0, {}}, {0, {5, 0, 16}}, {1, {600}}}));
  corpus.Put("stream", "small-in-pieces",
             pieces + StreamOf({{0, {}}, {0, {5, 0, 16}}, {1, {600}}}));
  corpus.Put("stream", "large", whole + StreamOf({{0, {20'000}}, {0, {1}}}));
  // A message that is passed by another one.
  corpus.Put("stream", "nested",
             whole + ChunkHead("SBEG", 16, 8, 1) + Bytes(uint64_t{40}) + "headers." +
                 std::string(16, 'a') + ChunkHead("SBEG", 8, 0, 1) + Bytes(uint64_t{3}) +
                 std::string(8, 'b') + ChunkHead("SMOR", 24, 0, 0) + std::string(24, 'a'));
  corpus.Put(
      "stream", "announced",
      whole + ChunkHead("SBEG", 1u << 30, 8, 1) + Bytes(uint64_t{1} << 30) + "headers.bytes");
  corpus.Put("stream", "many-frames",
             whole + ChunkHead("SBEG", 0, 8, 100) + std::string(800, '\0') + "headers.");
}

void LinksInMemory(const Corpus& corpus) {
  const std::string header = "a header";
  const std::string segment = Step(3, std::string("\x01") + Bytes(uint16_t{3}));
  corpus.Put("local_link", "inline",
             PutRecord(Record(8, 0, 0, {{0, 0, 5}, {0, 0, 0}}, header + "inline..")));
  corpus.Put("local_link", "lent",
             segment + PutRecord(Record(8, 1, 0, {{1, 4096, 8192}}, header)) + Step(5, ""));
  corpus.Put("local_link", "segment-later",
             PutRecord(Record(8, 1, 0, {{1, 0, 100}}, header)) + segment);
  corpus.Put("local_link", "outside",
             segment + PutRecord(Record(8, 1, 0, {{1, 16'384, 1}}, header)));
  corpus.Put("local_link", "indirect", segment + PutRecord(Record(8, 1, 1, {{1, 0, 32}}, "")));
  corpus.Put("local_link", "we-lend",
             Step(4, Bytes(uint16_t{50'000})) + Step(1, Bytes(uint32_t{1})) +
                 Step(4, Bytes(uint16_t{10})) + Step(1, Bytes(uint32_t{1})));
  corpus.Put("local_link", "positions",
             Step(2, Bytes(uint32_t{0}) + "\x08" + Bytes(uint64_t{4096})) +
                 Step(2, Bytes(uint32_t{192}) + "\x08" + Bytes(uint32_t{0xFFFFFFFF}) +
                             Bytes(uint32_t{0})));
}

}  // namespace soapstone::fuzz
