// SealedStream: what stands between a StreamChannel and its descriptor where a job has keys: bytes
// are written as records that nobody else can read or make (security/record_cipher.h), and read
// from such. docs/wire.md has the bytes. It is of one connection. Who calls: StreamChannel and its
// ChunkReader, which otherwise call sendmsg and recvmsg. It must not know chunks or messages.
//
// Invariants
//  1. Nothing is given out of a record whose tag was not found right.
//  2. At most kWriteBytes are sealed and not taken by the kernel, and at most kReadBytes are read
//  and
//     not given out.
//  3. After a fault nothing is read any more.
// One thread calls it.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "security/record_cipher.h"
#include "security/secret.h"

namespace soapstone::transport {

// What is wrong with what was read.
enum class SealFault : uint8_t {
  kNone,
  kRecord,  // it is not what the other side has sealed as the record of this number
  kLength,  // no record is so long
};

class SealedStream {
 public:
  static constexpr size_t kRecordBytesMax =
      security::RecordCipher::kTextBytesMax + security::RecordCipher::kOverheadBytes;
  // Several records to a call of the kernel: each wakes the other side.
  static constexpr size_t kWriteBytes = 4 * kRecordBytesMax;
  static constexpr size_t kReadBytes = 4 * kRecordBytesMax;

  // The keys of the two directions, which no other connection has or will have.
  // `records_per_key`: as RecordCipher.
  SealedStream(security::Cipher cipher, const security::Secret& sends,
               const security::Secret& receives,
               uint64_t records_per_key = security::RecordCipher::kRecordsPerKey);

  // As sendmsg that does not wait: how many bytes of `parts` it has taken over. What the kernel has
  // not taken of them is written by later calls, of which each has to take all of it before more
  // is. -1: errno says why; EAGAIN: something is still unwritten().
  ssize_t Write(int fd, absl::Span<const iovec> parts);
  size_t unwritten() const { return out_end_ - out_at_; }
  // What records took beside their texts, since the last call.
  uint64_t TakeOverheadOut() { return std::exchange(overhead_out_, 0); }

  // As recvmsg that does not wait. -1: errno says why; EBADMSG: fault().
  ssize_t Read(int fd, absl::Span<const iovec> parts);
  // Something may be given out though the kernel says no more.
  bool has_more() const { return text_left_ > 0 || WholeRecord() || filled_; }
  size_t held_bytes() const { return in_end_ - in_at_; }  // of a record that is not whole
  SealFault fault() const { return fault_; }
  uint64_t TakeOverheadIn() { return std::exchange(overhead_in_, 0); }

 private:
  bool WriteOut(int fd);
  void SealRecord(absl::Span<const iovec> parts, size_t begin, size_t text_bytes);
  uint32_t TextBytes() const;
  bool WholeRecord() const;
  bool OpenRecord(absl::Span<const iovec> parts, size_t placed, size_t room);
  size_t GiveText(absl::Span<const iovec> parts, size_t placed);
  ssize_t ReadIn(int fd);

  security::RecordCipher seals_, opens_;
  std::unique_ptr<uint8_t[]> out_, in_;
  size_t out_at_ = 0, out_end_ = 0;
  uint64_t overhead_out_ = 0, overhead_in_ = 0;
  size_t in_at_ = 0, in_end_ = 0;       // read, and not opened
  size_t text_at_ = 0, text_left_ = 0;  // opened where it was read, and not given out
  bool filled_ = false;                 // the latest read took all there was room for
  SealFault fault_ = SealFault::kNone;
};

}  // namespace soapstone::transport
