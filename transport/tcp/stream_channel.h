// StreamChannel: one end of a TCP connection that carries messages between two nodes. What is sent
// is queued, most urgent first, and written in chunks, so that an urgent message passes a large one
// at the end of a chunk; small messages are gathered into one write. ChunkReader
// (transport/tcp/chunk_reader.h) makes messages of what is received. docs/wire.md has the bytes.
// A connection may end and another take its place: what the other side did not have in hand is sent
// again (wire/session.h). Messages are numbered, on both sides, by the order in which their last
// chunk is on the way, so that numbers need not travel; acknowledgements do, as chunks of their
// own. Who calls: TcpLinks, which makes the connection. It must not know nodes, routes or
// headers.
//
// Invariants
//  1. Messages of equal priority arrive in the order sent, each once, over however many
//  connections.
//  2. Those that were begun and not finished are a stack: each is more urgent than the one below
//     it, so a chunk need not say which message it goes on with.
//  3. At most queue_messages_max messages, and queue_bytes_max bytes or one message, are queued or
//     not yet acknowledged.
//  4. What breaks the rules breaks the channel: nothing is received from then on.
// One thread calls it. The buffers it gives out are anyone's.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "base/memory/recycling.h"
#include "transport/tcp/chunk_reader.h"
#include "transport/tcp/kernel_queue.h"
#include "transport/tcp/sealed_stream.h"
#include "transport/tcp/send_window.h"
#include "wire/frame.h"
#include "wire/session.h"

namespace soapstone::transport {

struct StreamLimits {
  int queue_messages_max = 10'000;
  uint64_t queue_bytes_max = uint64_t{512} << 20;
  // What the kernel holds back and has not sent once. Little is better for urgent messages, and
  // much for throughput over long ways.
  uint32_t unsent_bytes_max = 512 << 10;
  bool adapts = true;  // holds the kernel to a window (transport/tcp/send_window.h)
  wire::FrameLimits frame;
};

class StreamChannel {
 public:
  static constexpr size_t kPieceMin = size_t{8} << 10;        // of a chunk, where the link is slow
  static constexpr size_t kChunkMin = size_t{64} << 10;       // where the connection takes little
  static constexpr size_t kChunkMax = size_t{1} << 20;        // and where it takes what it is given
  static constexpr size_t kFlushBytes = size_t{256} << 10;    // queued: not worth waiting for more
  static constexpr uint64_t kAckBytes = uint64_t{256} << 10;  // received: worth a chunk to say so
  static constexpr uint64_t kAckMessages = 256;               // likewise

  // `self`: who this end is, to the other one (wire::Session). `pool` outlives it.
  StreamChannel(uint64_t self, StreamLimits limits, BufferPool* pool);
  ~StreamChannel();
  StreamChannel(const StreamChannel&) = delete;
  StreamChannel& operator=(const StreamChannel&) = delete;

  // What this end says first on a connection that is to be the channel's.
  wire::SessionGreeting greeting() const { return session_.greeting(); }
  // Takes over `fd`, a connected socket on which the other side has said `theirs`, in the place of
  // the connection that was there; what follows goes through `seal` where there is one. False: the
  // other side is not the one that this channel was with, or has in hand what it cannot have; `fd`
  // stays the caller's, and the channel as it was.
  bool Attach(int fd, const wire::SessionGreeting& theirs,
              std::unique_ptr<SealedStream> seal = nullptr);
  // Lets go of the connection; what was not acknowledged will be sent again by the next one.
  void Detach();
  bool attached() const { return fd_ >= 0; }

  // What a message takes beside its header and payload, without the heads of further chunks.
  static uint64_t FramingOf(size_t header_bytes, absl::Span<const Buffer> payload);

  // Queues a message; `priority`: less is more urgent. The payload's bytes are shared until they
  // are written. Writes when much is queued; else Flush does. Errors: ResourceExhausted (queue
  // full), Unavailable (the connection is broken).
  absl::Status Send(std::string_view header, absl::Span<const Buffer> payload, uint32_t priority);
  // Writes what the kernel takes of what is queued.
  void Flush();
  bool unflushed() const { return unflushed_bytes_ > 0; }  // since the last Flush
  // Queued, or not yet in the other side's hand.
  size_t queued_messages() const { return queued_messages_ + session_.kept().size(); }
  size_t unsent_messages() const { return queued_messages_; }
  bool all_acknowledged() const { return queued_messages_ == 0 && session_.kept().empty(); }
  // The other side is to say what it has in hand, whatever that is.
  void AskForAcknowledgement();
  // It is told how much is in hand here.
  void Acknowledge();
  // It is told that nothing is taken here any more, as far as the kernel takes it at once.
  void SayBye();
  bool ended() const { return ended_; }  // the other side has said so

  // The next message: frames[0] is its header. False: none, or broken() now.
  bool Receive(Buffers* frames);
  // The same, of what has been read already.
  bool TakeRead(Buffers* frames);
  // The kernel has something, or may have.
  void SetReadable() { readable_ = true; }
  bool readable() const { return readable_ && !broken_; }
  // Tells the kernel for how many bytes it is worth to be woken.
  void PrepareToSleep();

  // False: what is sent arrives nowhere; what came may still be received.
  bool can_send() const { return fd_ >= 0 && can_send_ && !broken_; }
  bool wants_to_write() const {
    return can_send() &&
           (queued_messages_ > 0 || batch_bytes_ > 0 || unwritten() > 0 || acknowledges_ || asks_);
  }
  // The connection has ended or the other side broke the rules; what came before was given out.
  bool broken() const { return broken_; }
  bool broke_rules() const { return broke_rules_; }
  // Of the connection that is attached.
  SealFault seal_fault() const { return seal_ != nullptr ? seal_->fault() : SealFault::kNone; }
  int fd() const { return fd_; }
  const SendWindow& window() const { return window_; }
  uint64_t given_bytes() const { return given_bytes_; }  // to connections, sooner or later
  // Of them, beside messages the first time they are sent: heads of further chunks and of records,
  // acknowledgements, what was sent again.
  int64_t more_bytes() const { return more_bytes_; }
  int64_t more_bytes_in() const { return reader_.more_bytes(); }  // of what was received
  // Of the connection that is attached: taken by the kernel, and given sooner or later.
  uint64_t taken_bytes() const { return taken_bytes_ - unwritten(); }
  uint64_t connection_bytes() const { return given_bytes_ - taken_before_; }

 private:
  struct Outgoing {
    using Head = std::basic_string<char, std::char_traits<char>, RecyclingAllocator<char>>;
    static void* operator new(size_t bytes) { return Recycler::Take(bytes); }
    static void operator delete(void* at, size_t bytes) { Recycler::Give(at, bytes); }
    Head head;                // a chunk head, the frames' sizes, the header
    Buffers payload;          // sent after it, each frame rounded up to 8 bytes
    uint64_t body_bytes = 0;  // of the payload
    uint64_t left = 0;        // of it
    size_t frame = 0;         // where it goes on
    uint64_t at = 0;          // in that frame
    uint64_t queued_bytes = 0;
    uint32_t priority = 0;
  };
  using Outgoings = std::vector<std::unique_ptr<Outgoing>>;

  bool Full(uint64_t bytes) const;
  void QueueAgain();
  void AddNote(uint32_t magic, uint64_t number);
  bool AddChunk();
  void AddPayload(Outgoing* message, uint64_t bytes);
  void AddPart(const void* data, size_t size);
  bool FillBatch();
  size_t unwritten() const { return seal_ != nullptr ? seal_->unwritten() : 0; }
  ssize_t Write(size_t parts);
  void Advance(size_t written);
  void Refused();
  void LookAtKernel();
  size_t ChunkMax() const;

  bool Parse(Buffers* frames);
  bool TakeNote(const ChunkReader::Note& note);
  void Received(uint64_t bytes);
  void Break();
  void Read();

  int fd_ = -1;
  std::unique_ptr<SealedStream> seal_;  // null: what goes by the connection is in clear
  const StreamLimits limits_;
  bool broken_ = false;
  bool broke_rules_ = false;
  bool can_send_ = true;
  // Its items: messages that are in the batch to their end, or were written.
  wire::Session<std::unique_ptr<Outgoing>, RecyclingAllocator> session_;

  // Sending.
  template <typename T>
  using Queue = std::deque<T, RecyclingAllocator<T>>;
  std::map<uint32_t, Queue<std::unique_ptr<Outgoing>>> queues_;  // by priority
  Outgoings begun_;                                              // by urgency, the most urgent last
  std::vector<iovec> batch_;  // to be written next, whatever comes
  size_t batch_at_ = 0;       // the first of it that is not written
  size_t batch_bytes_ = 0;    // left of it
  Queue<ChunkHead> heads_;    // of the batch's chunks that do not begin a message
  size_t chunk_bytes_ = kFlushBytes;
  bool adapts_ = false;
  SendWindow window_;
  bool refused_ = false;      // the kernel took less than it was given, and has not taken all since
  uint64_t taken_bytes_ = 0;  // by the kernel, or the seal, of this connection
  uint64_t taken_before_ = 0;                                // by those before it
  uint64_t holdable_bytes_ = SendWindowOptions().bytes_max;  // less can be held to
  uint32_t looks_ = 0;
  TcpPath path_;
  uint64_t unflushed_bytes_ = 0;
  uint64_t queued_bytes_ = 0;
  size_t queued_messages_ = 0;
  uint64_t given_bytes_ = 0;
  int64_t more_bytes_ = 0;
  uint64_t in_batch_ = 0;      // messages of the session that end in the batch
  bool acknowledges_ = false;  // by the next batch, whatever else is in it
  bool asks_ = false;          // likewise, for the other side's
  bool asked_ = false;         // and was not answered since
  bool ended_ = false;
  bool says_bye_ = false;

  // Receiving.
  ChunkReader reader_;
  uint64_t unsaid_bytes_ = 0;     // received and not acknowledged
  uint64_t unsaid_messages_ = 0;  // likewise
  int wake_bytes_ = 1;
  bool readable_ = false;
};

}  // namespace soapstone::transport
