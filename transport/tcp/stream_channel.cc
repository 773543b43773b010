#include "transport/tcp/stream_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/steady_clock.h"
#include "transport/tcp/kernel_queue.h"

namespace soapstone::transport {
namespace {

constexpr size_t kGatheredMax = 512;  // payloads: a copy is cheaper than parts of their own
constexpr size_t kEmptyQueuesMax = 16;
constexpr size_t kReadsMax = 16;  // of one Receive, so that a large message holds nobody up long
constexpr int kWakeBytesMax = 256 << 10;
constexpr uint64_t kChunksInWindow = 4;
constexpr uint32_t kPathEvery = 16;  // looks at the kernel's queue
constexpr std::byte kZeros[8] = {};

}  // namespace

StreamChannel::StreamChannel(uint64_t self, StreamLimits limits, BufferPool* pool)
    : limits_(limits),
      session_(self, {.bytes_max = limits.queue_bytes_max,
                      .items_max = static_cast<uint64_t>(limits.queue_messages_max)}),
      reader_(limits.frame, pool) {}

StreamChannel::~StreamChannel() {
  if (fd_ >= 0) close(fd_);
}

bool StreamChannel::Attach(int fd, const wire::SessionGreeting& theirs,
                           std::unique_ptr<SealedStream> seal) {
  if (theirs.self == 0 || (session_.other() != 0 && theirs.self != session_.other())) return false;
  using Greeted = wire::Session<std::unique_ptr<Outgoing>, RecyclingAllocator>::Greeted;
  if (session_.OnGreeting(theirs) != Greeted::kGoesOn) return false;
  if (fd_ >= 0) Detach();
  QueueAgain();
  fd_ = fd;
  seal_ = std::move(seal);
  adapts_ = limits_.adapts && IsTcpConnection(fd);
  SetKernelQueue(fd_, {.unsent_bytes = limits_.unsent_bytes_max});
  readable_ = true;
  unflushed_bytes_ = queued_bytes_;
  return true;
}

// What was begun by the other side begins again.
void StreamChannel::Detach() {
  if (fd_ < 0) return;
  close(std::exchange(fd_, -1));
  batch_.clear();
  heads_.clear();
  batch_at_ = batch_bytes_ = in_batch_ = 0;
  taken_before_ += taken_bytes();
  taken_bytes_ = 0;
  seal_.reset();
  refused_ = acknowledges_ = asks_ = asked_ = false;
  broken_ = broke_rules_ = readable_ = false;
  can_send_ = true;
  chunk_bytes_ = kFlushBytes;
  unsaid_bytes_ = unsaid_messages_ = 0;  // the next greeting says it
  wake_bytes_ = 1;
  reader_.Reset();
}

// What was written to a connection that has ended, and is not in the other side's hand, goes first
// of its priority, in the order in which it went; then what was begun.
void StreamChannel::QueueAgain() {
  const auto put_first = [&](std::unique_ptr<Outgoing> message) {
    message->left = message->body_bytes;
    message->frame = 0;
    message->at = 0;
    Queue<std::unique_ptr<Outgoing>>& queue = queues_[message->priority];
    queue.push_front(std::move(message));
  };
  while (!begun_.empty()) {
    put_first(std::move(begun_.back()));
    begun_.pop_back();
  }
  auto again = session_.TakeBack();
  while (!again.empty()) {
    ++queued_messages_;
    queued_bytes_ += again.back().bytes;
    put_first(std::move(again.back().item));
    again.pop_back();
  }
  const uint64_t given = taken_before_ + queued_bytes_;
  more_bytes_ += static_cast<int64_t>(given - given_bytes_);
  given_bytes_ = given;
}

void StreamChannel::AskForAcknowledgement() {
  asks_ = true;
  unflushed_bytes_ += sizeof(ChunkHead);
}

void StreamChannel::Acknowledge() {
  if (fd_ < 0) return;
  acknowledges_ = true;
  unflushed_bytes_ += sizeof(ChunkHead);
}

uint64_t StreamChannel::FramingOf(size_t header_bytes, absl::Span<const Buffer> payload) {
  uint64_t framing = sizeof(ChunkHead) + RoundedUpBy8(header_bytes) - header_bytes;
  for (const Buffer& frame : payload) framing += 8 + RoundedUpBy8(frame.size()) - frame.size();
  return framing;
}

bool StreamChannel::Full(uint64_t bytes) const {
  if (all_acknowledged()) return false;
  return queued_messages() >= static_cast<size_t>(limits_.queue_messages_max) ||
         queued_bytes_ + session_.kept_bytes() + bytes > limits_.queue_bytes_max;
}

absl::Status StreamChannel::Send(std::string_view header, absl::Span<const Buffer> payload,
                                 uint32_t priority) {
  uint64_t payload_bytes = 0;
  for (const Buffer& frame : payload) payload_bytes += RoundedUpBy8(frame.size());
  const uint64_t head_bytes = sizeof(ChunkHead) + 8 * payload.size() + RoundedUpBy8(header.size());
  const uint64_t bytes = head_bytes + payload_bytes;
  if (Full(bytes)) Flush();
  if (Full(bytes)) {
    if (!asked_ && !session_.kept().empty()) {
      asked_ = true;
      AskForAcknowledgement();
      Flush();
    }
    // Made once: a sender that is faster than its receiver sees it often.
    static const auto* full =
        new absl::Status(absl::ResourceExhaustedError("the peer's send queue is full"));
    return *full;
  }

  auto message = std::make_unique<Outgoing>();
  const ChunkHead chunk = {kBeginMagic, 0, static_cast<uint32_t>(header.size()),
                           static_cast<uint32_t>(payload.size())};
  const bool gathered = payload_bytes <= kGatheredMax;
  Outgoing::Head& head = message->head;
  head.assign(gathered ? bytes : head_bytes, '\0');
  char* to = head.data();
  std::memcpy(to, &chunk, sizeof(chunk));
  to += sizeof(chunk);
  for (const Buffer& frame : payload) {
    const uint64_t size = frame.size();
    std::memcpy(to, &size, sizeof(size));
    to += sizeof(size);
  }
  header.copy(to, header.size());
  to += RoundedUpBy8(header.size());
  if (gathered) {
    for (const Buffer& frame : payload) {
      if (frame.size() > 0) std::memcpy(to, frame.data(), frame.size());
      to += RoundedUpBy8(frame.size());
    }
    const auto size = static_cast<uint32_t>(payload_bytes);
    std::memcpy(head.data() + offsetof(ChunkHead, bytes), &size, sizeof(size));
  } else {
    message->payload.assign(payload.begin(), payload.end());
  }
  message->body_bytes = message->left = gathered ? 0 : payload_bytes;
  message->frame = 0;
  message->at = 0;
  message->queued_bytes = bytes;
  message->priority = priority;
  queues_[priority].push_back(std::move(message));
  ++queued_messages_;
  queued_bytes_ += bytes;
  given_bytes_ += bytes;
  unflushed_bytes_ += bytes;
  if (unflushed_bytes_ >= kFlushBytes) Flush();
  return absl::OkStatus();
}

void StreamChannel::AddPart(const void* data, size_t size) {
  batch_.push_back({const_cast<void*>(data), size});  // sendmsg does not write to it
  batch_bytes_ += size;
}

void StreamChannel::AddPayload(Outgoing* message, uint64_t bytes) {
  message->left -= bytes;
  while (bytes > 0) {
    const Buffer& frame = message->payload[message->frame];
    if (message->at < frame.size()) {
      const uint64_t size = std::min<uint64_t>(bytes, frame.size() - message->at);
      AddPart(frame.data() + message->at, size);
      message->at += size;
      bytes -= size;
      if (message->at < frame.size()) return;
    }
    // Chunks end at multiples of 8 bytes, so what rounds a frame up is never cut.
    const uint64_t rounding = RoundedUpBy8(frame.size()) - frame.size();
    if (rounding > 0) AddPart(kZeros, rounding);
    bytes -= rounding;
    ++message->frame;
    message->at = 0;
  }
}

// The next chunk joins the batch. False: nothing is left.
bool StreamChannel::AddChunk() {
  Outgoing* message = begun_.empty() ? nullptr : begun_.back().get();
  auto queue = queues_.begin();
  while (queue != queues_.end() && queue->second.empty()) {
    queue = queues_.size() > kEmptyQueuesMax ? queues_.erase(queue) : std::next(queue);
  }
  const bool begins =
      queue != queues_.end() &&
      (message == nullptr || (queue->first < message->priority && begun_.size() < kBegunMax));
  if (!begins && message == nullptr) return false;
  if (begins) {
    begun_.push_back(std::move(queue->second.front()));
    queue->second.pop_front();
    message = begun_.back().get();
  }
  const uint64_t bytes = std::min<uint64_t>(message->left, chunk_bytes_);
  const auto chunk_bytes = static_cast<uint32_t>(bytes);
  if (begins) {
    if (bytes > 0) {
      std::memcpy(message->head.data() + offsetof(ChunkHead, bytes), &chunk_bytes,
                  sizeof(chunk_bytes));
    }
    AddPart(message->head.data(), message->head.size());
  } else {
    heads_.push_back({kMoreMagic, chunk_bytes, 0, 0});
    AddPart(&heads_.back(), sizeof(ChunkHead));
    given_bytes_ += sizeof(ChunkHead);
    more_bytes_ += sizeof(ChunkHead);
  }
  AddPayload(message, bytes);
  if (message->left == 0) {
    --queued_messages_;
    queued_bytes_ -= message->queued_bytes;
    session_.Keep(std::move(begun_.back()), message->queued_bytes);
    begun_.pop_back();
    ++in_batch_;
  }
  return true;
}

void StreamChannel::AddNote(uint32_t magic, uint64_t number) {
  heads_.push_back({magic, 0, static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)});
  AddPart(&heads_.back(), sizeof(ChunkHead));
  given_bytes_ += sizeof(ChunkHead);
  more_bytes_ += sizeof(ChunkHead);
}

bool StreamChannel::FillBatch() {
  heads_.clear();
  batch_.clear();
  batch_at_ = 0;
  in_batch_ = 0;
  if (acknowledges_ || (unsaid_messages_ > 0 && queued_messages_ > 0)) {
    AddNote(kAckMagic, session_.received());
    acknowledges_ = false;
    unsaid_bytes_ = unsaid_messages_ = 0;
  }
  if (std::exchange(asks_, false)) AddNote(kAskMagic, 0);
  if (std::exchange(says_bye_, false)) AddNote(kByeMagic, 0);
  while (batch_bytes_ < chunk_bytes_ && batch_.size() < IOV_MAX && AddChunk()) {
  }
  return batch_bytes_ > 0;
}

void StreamChannel::Advance(size_t written) {
  batch_bytes_ -= written;
  taken_bytes_ += written;
  while (written > 0) {
    iovec& part = batch_[batch_at_];
    const size_t size = std::min(written, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + size;
    part.iov_len -= size;
    written -= size;
    if (part.iov_len == 0) ++batch_at_;
  }
}

// A chunk waits in front of an urgent message, as the window does.
size_t StreamChannel::ChunkMax() const {
  if (!window_.bounded()) return kChunkMax;
  const uint64_t bytes = window_.bytes() / kChunksInWindow & ~uint64_t{4095};
  return std::clamp<size_t>(bytes, kPieceMin, kChunkMax);
}

void StreamChannel::Refused() {
  refused_ = true;
  chunk_bytes_ = std::max(std::min(kChunkMin, ChunkMax()), chunk_bytes_ / 2);
}

// Between a refusal and the write after it: what has arrived meanwhile is what the link carries.
void StreamChannel::LookAtKernel() {
  const std::optional<uint64_t> outstanding = OutstandingBytes(fd_);
  if (!outstanding.has_value() || *outstanding > taken_bytes()) return;
  if (looks_++ % kPathEvery == 0) path_ = PathOf(fd_);
  const bool changed = window_.OnLook({.now = SteadyNow().nanos(),
                                       .acknowledged = taken_bytes() - *outstanding,
                                       .outstanding = *outstanding,
                                       .round_trip_min = path_.round_trip_min,
                                       .segment_bytes = path_.segment_bytes});
  if (!changed) return;
  const auto unsent =
      static_cast<uint32_t>(std::min<uint64_t>(window_.slack_bytes(), limits_.unsent_bytes_max));
  const uint64_t window = window_.bytes() < holdable_bytes_ ? window_.bytes() : 0;
  if (!SetKernelQueue(fd_, {.outstanding_bytes = window, .unsent_bytes = unsent})) {
    holdable_bytes_ = window;
  }
  chunk_bytes_ = std::min(chunk_bytes_, ChunkMax());
}

// As sendmsg of the batch's next `parts`. What the seal adds is given to the connection too.
ssize_t StreamChannel::Write(size_t parts) {
  if (seal_ == nullptr) {
    msghdr message = {};
    message.msg_iov = &batch_[batch_at_];
    message.msg_iovlen = parts;
    return sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const ssize_t written = seal_->Write(fd_, {batch_.data() + batch_at_, parts});
  const uint64_t more = seal_->TakeOverheadOut();
  given_bytes_ += more;
  more_bytes_ += static_cast<int64_t>(more);
  taken_bytes_ += more;
  return written;
}

// A chunk, and so what an urgent message may have to wait for, grows while the kernel takes it all,
// and shrinks where it does not.
void StreamChannel::Flush() {
  unflushed_bytes_ = 0;
  if (refused_ && adapts_) LookAtKernel();
  while (can_send() && (batch_bytes_ > 0 || unwritten() > 0 || FillBatch())) {
    const size_t parts = std::min<size_t>(batch_.size() - batch_at_, IOV_MAX);
    const ssize_t written = Write(parts);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN) {
      can_send_ = false;
      readable_ = true;  // up to the end
      return;
    }
    const bool all_parts = parts == batch_.size() - batch_at_ && seal_ == nullptr;
    if (written > 0) Advance(static_cast<size_t>(written));
    if (unwritten() > 0 || (batch_bytes_ > 0 && (written <= 0 || all_parts))) {
      Refused();
      return;
    }
    if (batch_bytes_ == 0) chunk_bytes_ = std::min(ChunkMax(), chunk_bytes_ * 2);
  }
  refused_ = false;
  window_.OnIdle();
}

bool StreamChannel::TakeRead(Buffers* frames) {
  frames->clear();
  return Parse(frames);
}

bool StreamChannel::Receive(Buffers* frames) {
  frames->clear();
  for (size_t reads = 0;; ++reads) {
    if (Parse(frames)) return true;
    if (broken_ || !readable_ || reads == kReadsMax) return false;
    Read();
  }
}

void StreamChannel::Break() {
  broken_ = true;
  broke_rules_ = true;
}

// True: a message is complete.
bool StreamChannel::Parse(Buffers* frames) {
  while (!broken_) {
    switch (reader_.Next(frames)) {
      case ChunkReader::Came::kNothing:
        return false;
      case ChunkReader::Came::kMessage:
        Received(reader_.message_bytes());
        return true;
      case ChunkReader::Came::kNote:
        if (!TakeNote(reader_.note())) Break();
        break;
      case ChunkReader::Came::kFault:
        Break();
        break;
    }
  }
  return false;
}

void StreamChannel::Read() {
  switch (reader_.Read(fd_, seal_.get())) {
    case ChunkReader::Got::kAll:
      readable_ = true;
      break;
    case ChunkReader::Got::kSome:
      readable_ = !can_send_;  // up to the end
      break;
    case ChunkReader::Got::kNothing:
      readable_ = false;
      break;
    case ChunkReader::Got::kInterrupted:
      break;
    case ChunkReader::Got::kEnd:
      broken_ = true;
      break;
    case ChunkReader::Got::kForged:
      Break();
      break;
  }
}

void StreamChannel::SayBye() {
  says_bye_ = true;
  Flush();
}

// No acknowledgement lets go of what is still to be written, whatever it says.
bool StreamChannel::TakeNote(const ChunkReader::Note& note) {
  if (note.magic == kAskMagic) {
    Acknowledge();
    return note.number == 0;
  }
  if (note.magic == kByeMagic) {
    ended_ = true;
    return false;  // nothing follows
  }
  asked_ = false;
  if (note.number > session_.sent()) return false;
  const uint64_t written = session_.sent() - (batch_bytes_ > 0 ? in_batch_ : 0);
  return session_.OnAcknowledged(std::min(note.number, written));
}

void StreamChannel::Received(uint64_t bytes) {
  session_.OnArrival(session_.received() + 1);
  unsaid_bytes_ += bytes;
  if (++unsaid_messages_ >= kAckMessages || unsaid_bytes_ >= kAckBytes) Acknowledge();
}

void StreamChannel::PrepareToSleep() {
  // A part of a record that is there already says nothing before the rest comes.
  const size_t held = seal_ != nullptr ? seal_->held_bytes() : 0;
  const size_t awaited = reader_.awaited_bytes() - std::min(held, reader_.awaited_bytes());
  const int bytes =
      awaited < kChunkMin ? 1 : static_cast<int>(std::min<size_t>(awaited, kWakeBytesMax));
  if (bytes == wake_bytes_) return;
  wake_bytes_ = bytes;
  setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

}  // namespace soapstone::transport
