// ChunkReader: makes messages of the chunks that arrive on a stream's connection. Bytes are read
// into slabs of pooled memory: small messages are parsed where they were read, large ones are read
// directly to where they stay. Notes between the two ends are handed out as they come. Who calls:
// StreamChannel, which knows what notes mean. It must not know sessions, or who is at the other
// end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"
#include "base/memory/recycling.h"
#include "transport/tcp/chunk.h"
#include "transport/tcp/sealed_stream.h"
#include "wire/frame.h"

namespace soapstone::transport {

// Invariants
//  1. Messages come out whole, in the order in which they end, and of those that are begun the one
//     that was begun last goes on: a chunk need not say which message it is of.
//  2. Whatever comes in, no memory is taken beyond the limits, nor for the announcement of a large
//     message: beyond kAheadMax at most kAheadFactor times what has come of it.
//  3. After kFault nothing is read any more, until Reset.
// One thread calls it. The buffers that it gives out are anyone's.
class ChunkReader {
 public:
  static constexpr size_t kSlabBytes = size_t{64} << 10;
  static constexpr uint64_t kAheadMax = uint64_t{64} << 20;
  static constexpr uint64_t kAheadFactor = 4;
  static constexpr size_t kInPlaceMax = size_t{16} << 10;  // of a payload that stays in the slab

  // `pool` outlives it.
  ChunkReader(const wire::FrameLimits& limits, BufferPool* pool) : limits_(limits), pool_(pool) {}
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // Another connection begins: what the last one left unfinished is forgotten.
  void Reset();

  enum class Came : uint8_t {
    kNothing,  // before more is read
    kMessage,  // frames[0] is its header
    kNote,     // note() says which
    kFault,    // what no honest side sends
  };
  // Goes as far as what was read allows. REQUIRES: `frames` is empty.
  Came Next(Buffers* frames);
  struct Note {
    uint32_t magic = 0;  // kAckMagic, kAskMagic or kByeMagic
    uint64_t number = 0;
  };
  const Note& note() const { return note_; }                 // of the latest kNote
  uint64_t message_bytes() const { return message_bytes_; }  // of the latest kMessage's payload

  enum class Got : uint8_t {
    kAll,      // as much as there was room for: there may be more
    kSome,     // all that there was
    kNothing,  // that is there yet
    kInterrupted,
    kEnd,     // of the connection
    kForged,  // what was sealed is not what came
  };
  // Reads once from the connection `fd`, without waiting, through `seal` where there is one.
  // REQUIRES: Next has said kNothing.
  Got Read(int fd, SealedStream* seal = nullptr);
  // What is known to come: the rest of a part of a large message.
  size_t awaited_bytes() const { return target_left_; }

  // Heads of further chunks and notes, and of records, since construction.
  int64_t more_bytes() const { return more_bytes_; }

 private:
  struct Incoming {
    Buffer header;
    std::vector<uint64_t, RecyclingAllocator<uint64_t>> sizes;  // of the frames
    BufferPool::Block block;                                    // of all bytes, or of the first
    uint64_t bytes = 0;                                         // of the payload
    uint64_t filled = 0;
  };
  enum class Step : uint8_t { kChunk, kHead, kInPlace, kPayload, kFault };

  void FillTarget();
  Came ParseChunkHead();
  bool BeginMessage();
  bool GoOn();
  bool ParseHead();
  void ExpectChunk();
  void ExpectPayload();
  void Emit(Buffers* frames);
  void MakeRoom(size_t bytes, size_t unread_min);
  size_t unparsed() const { return slab_end_ - slab_at_; }

  const wire::FrameLimits limits_;
  BufferPool* const pool_;
  BufferPool::Block slab_;
  size_t slab_at_ = 0;               // parsed up to here
  size_t slab_end_ = 0;              // read up to here
  size_t need_ = sizeof(ChunkHead);  // in the slab, for the next step
  Step step_ = Step::kChunk;
  ChunkHead chunk_ = {};
  BufferPool::Block large_head_;  // of a head that the slab has no room for
  std::vector<Incoming> incoming_;
  std::byte* target_ = nullptr;  // where the bytes that come next stay
  size_t target_left_ = 0;
  uint64_t chunk_left_ = 0;  // of the chunk's payload, behind the target
  Note note_;
  uint64_t message_bytes_ = 0;
  int64_t more_bytes_ = 0;
};

}  // namespace soapstone::transport
