#include "transport/tcp/chunk_reader.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace soapstone::transport {
namespace {

constexpr size_t kCopiedMax = 512;     // frames: a copy is cheaper than a slab that is kept
constexpr size_t kSurplusBytes = 512;  // read behind a large payload: what comes next, if small
constexpr size_t kUnreadMin = 8192;    // of a slab that is read into once more

}  // namespace

void ChunkReader::Reset() {
  slab_ = {};
  slab_at_ = slab_end_ = 0;
  large_head_ = {};
  incoming_.clear();
  target_ = nullptr;
  target_left_ = chunk_left_ = 0;
  ExpectChunk();
}

void ChunkReader::FillTarget() {
  const size_t size = std::min(target_left_, unparsed());
  if (size > 0) std::memcpy(target_, slab_.data + slab_at_, size);
  slab_at_ += size;
  target_ += size;
  target_left_ -= size;
}

ChunkReader::Came ChunkReader::Next(Buffers* frames) {
  for (;;) {
    if (target_left_ > 0) {
      FillTarget();
      if (target_left_ > 0) return Came::kNothing;
    }
    if (unparsed() < need_) return Came::kNothing;
    Came came = Came::kNothing;
    switch (step_) {
      case Step::kChunk:
        came = ParseChunkHead();
        break;
      case Step::kHead:
        if (!ParseHead()) came = Came::kFault;
        break;
      case Step::kInPlace:
        Emit(frames);
        slab_at_ += chunk_.bytes;
        return Came::kMessage;
      case Step::kPayload:
        if (chunk_left_ > 0) {
          ExpectPayload();
          break;
        }
        ExpectChunk();
        if (incoming_.back().filled < incoming_.back().bytes) break;
        Emit(frames);
        return Came::kMessage;
      case Step::kFault:
        return Came::kFault;
    }
    if (came == Came::kFault) {
      step_ = Step::kFault;
      need_ = target_left_ = 0;
    }
    if (came != Came::kNothing) return came;
  }
}

void ChunkReader::ExpectChunk() {
  step_ = Step::kChunk;
  need_ = sizeof(ChunkHead);
}

// As much of the chunk as the message's block has room for, which is made larger where it is full.
void ChunkReader::ExpectPayload() {
  Incoming& message = incoming_.back();
  if (message.filled == message.block.size) {
    const BufferPool::Block larger =
        pool_->Take(std::min(message.bytes, kAheadFactor * message.filled));
    std::memcpy(larger.data, message.block.data, message.filled);
    message.block = larger;
  }
  target_ = message.block.data + message.filled;
  target_left_ = std::min<uint64_t>(chunk_left_, message.block.size - message.filled);
  chunk_left_ -= target_left_;
  message.filled += target_left_;
  step_ = Step::kPayload;
  need_ = 0;
}

// kNothing: it is a part of a message, and is gone on with.
ChunkReader::Came ChunkReader::ParseChunkHead() {
  std::memcpy(&chunk_, slab_.data + slab_at_, sizeof(chunk_));
  slab_at_ += sizeof(chunk_);
  if (chunk_.bytes % 8 != 0) return Came::kFault;
  switch (chunk_.magic) {
    case kBeginMagic:
      return BeginMessage() ? Came::kNothing : Came::kFault;
    case kMoreMagic:
      return GoOn() ? Came::kNothing : Came::kFault;
    case kAckMagic:
    case kAskMagic:
    case kByeMagic:
      more_bytes_ += sizeof(ChunkHead);
      note_ = {.magic = chunk_.magic,
               .number = uint64_t{chunk_.frames} << 32 | chunk_.header_bytes};
      return chunk_.bytes == 0 ? Came::kNote : Came::kFault;
    default:
      return Came::kFault;
  }
}

bool ChunkReader::GoOn() {
  if (incoming_.empty() || chunk_.bytes == 0 || chunk_.header_bytes != 0 || chunk_.frames != 0) {
    return false;
  }
  const Incoming& message = incoming_.back();
  if (chunk_.bytes > message.bytes - message.filled) return false;
  more_bytes_ += sizeof(ChunkHead);
  chunk_left_ = chunk_.bytes;
  ExpectPayload();
  return true;
}

bool ChunkReader::BeginMessage() {
  if (incoming_.size() == kBegunMax || chunk_.header_bytes > limits_.header_bytes_max ||
      chunk_.frames > limits_.payload_frames_max) {
    return false;
  }
  const uint64_t head_bytes = 8 * uint64_t{chunk_.frames} + RoundedUpBy8(chunk_.header_bytes);
  step_ = Step::kHead;
  need_ = head_bytes;
  if (head_bytes > kInPlaceMax) {
    large_head_ = pool_->Take(head_bytes);
    target_ = large_head_.data;
    target_left_ = head_bytes;
    need_ = 0;
  }
  return true;
}

bool ChunkReader::ParseHead() {
  const bool large = large_head_.data != nullptr;
  const std::byte* at = large ? large_head_.data : slab_.data + slab_at_;
  Incoming message;
  message.sizes.resize(chunk_.frames);
  uint64_t payload_bytes = 0;
  for (uint64_t& size : message.sizes) {
    std::memcpy(&size, at, sizeof(size));
    at += sizeof(size);
    if (size > limits_.frame_bytes_max) return false;
    payload_bytes += size;
    message.bytes += RoundedUpBy8(size);
    if (payload_bytes > limits_.message_bytes_max) return false;
  }
  if (chunk_.bytes > message.bytes || (chunk_.bytes == 0 && message.bytes > 0)) return false;
  const bool in_place = message.bytes <= kInPlaceMax && chunk_.bytes == message.bytes;
  if (large) {
    message.header = Buffer(large_head_.owner, at, chunk_.header_bytes);
  } else if (in_place) {
    message.header = Buffer(slab_.owner, at, chunk_.header_bytes);
  } else {
    message.header = Buffer::CopyOf(at, chunk_.header_bytes);
  }
  if (!large) slab_at_ += need_;
  large_head_ = {};
  if (!in_place) message.block = pool_->Take(std::min(message.bytes, kAheadMax));
  incoming_.push_back(std::move(message));
  if (in_place) {
    step_ = Step::kInPlace;
    need_ = chunk_.bytes;
  } else {
    chunk_left_ = chunk_.bytes;
    ExpectPayload();
  }
  return true;
}

void ChunkReader::Emit(Buffers* frames) {
  Incoming& message = incoming_.back();
  message_bytes_ = message.bytes;
  const bool in_place = message.block.data == nullptr;
  const BufferPool::Block& from = in_place ? slab_ : message.block;
  size_t offset = in_place ? slab_at_ : 0;
  frames->reserve(1 + message.sizes.size());
  frames->push_back(std::move(message.header));
  for (const uint64_t size : message.sizes) {
    const bool copied = in_place && size <= kCopiedMax;
    frames->push_back(copied ? Buffer::CopyOf(from.data + offset, size) : from.View(offset, size));
    offset += RoundedUpBy8(size);
  }
  incoming_.pop_back();
  ExpectChunk();
}

// So that `bytes` from slab_at_ on have room. Others may still look at what was parsed, so no part
// of a slab is written twice.
void ChunkReader::MakeRoom(size_t bytes, size_t unread_min) {
  if (slab_.data != nullptr && slab_.size - slab_at_ >= bytes &&
      slab_.size - slab_end_ >= unread_min) {
    return;
  }
  const BufferPool::Block next = pool_->Take(kSlabBytes);
  const size_t kept = unparsed();
  if (kept > 0) std::memcpy(next.data, slab_.data + slab_at_, kept);
  slab_ = next;
  slab_at_ = 0;
  slab_end_ = kept;
}

ChunkReader::Got ChunkReader::Read(int fd, SealedStream* seal) {
  iovec parts[2];
  size_t count = 0;
  const bool direct = target_left_ > 0;
  // What comes behind the target begins at a multiple of 8 bytes of the stream, and so in the slab,
  // of which the target may have taken any number.
  if (direct) slab_at_ = slab_end_ = std::min(RoundedUpBy8(slab_end_), slab_.size);
  MakeRoom(need_, direct ? kSurplusBytes : kUnreadMin);
  size_t room = slab_.size - slab_end_;
  if (direct) {
    parts[count++] = {target_, target_left_};
    room = std::min(room, kSurplusBytes);
  }
  parts[count++] = {slab_.data + slab_end_, room};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const ssize_t got =
      seal == nullptr ? recvmsg(fd, &message, MSG_DONTWAIT) : seal->Read(fd, {parts, count});
  if (seal != nullptr) more_bytes_ += static_cast<int64_t>(seal->TakeOverheadIn());
  if (got < 0 && errno == EINTR) return Got::kInterrupted;
  if (got < 0 && errno == EAGAIN) return Got::kNothing;
  if (got < 0 && errno == EBADMSG && seal != nullptr) return Got::kForged;
  if (got <= 0) return Got::kEnd;
  const auto bytes = static_cast<size_t>(got);
  const bool all = bytes == target_left_ + room || (seal != nullptr && seal->has_more());
  const size_t placed = std::min(bytes, target_left_);
  target_ += placed;
  target_left_ -= placed;
  slab_end_ += bytes - placed;
  return all ? Got::kAll : Got::kSome;
}

}  // namespace soapstone::transport
