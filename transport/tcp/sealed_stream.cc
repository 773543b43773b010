#include "transport/tcp/sealed_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace soapstone::transport {
namespace {

using security::RecordCipher;

constexpr size_t kCopiedPartMax = 1024;  // parts: a copy is cheaper than turns of the cipher

size_t BytesOf(absl::Span<const iovec> parts) {
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

// Calls use(at, bytes) for the parts' bytes [begin, begin + bytes), piece by piece.
template <typename Use>
void ForPieces(absl::Span<const iovec> parts, size_t begin, size_t bytes, const Use& use) {
  for (const iovec& part : parts) {
    if (bytes == 0) return;
    if (begin >= part.iov_len) {
      begin -= part.iov_len;
      continue;
    }
    const size_t size = std::min(bytes, part.iov_len - begin);
    use(static_cast<uint8_t*>(part.iov_base) + begin, size);
    begin = 0;
    bytes -= size;
  }
}

}  // namespace

SealedStream::SealedStream(security::Cipher cipher, const security::Secret& sends,
                           const security::Secret& receives, uint64_t records_per_key)
    : seals_(cipher, sends, RecordCipher::Use::kSeal, records_per_key),
      opens_(cipher, receives, RecordCipher::Use::kOpen, records_per_key),
      out_(std::make_unique_for_overwrite<uint8_t[]>(kWriteBytes)),
      in_(std::make_unique_for_overwrite<uint8_t[]>(kReadBytes)) {}

// False: something is left; errno says why.
bool SealedStream::WriteOut(int fd) {
  while (out_at_ < out_end_) {
    const ssize_t written =
        send(fd, out_.get() + out_at_, out_end_ - out_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    out_at_ += static_cast<size_t>(written);
  }
  return true;
}

// Runs of small parts are gathered and sealed in one go.
void SealedStream::SealRecord(absl::Span<const iovec> parts, size_t begin, size_t text_bytes) {
  const auto length = static_cast<uint32_t>(text_bytes);
  std::memcpy(out_.get() + out_end_, &length, sizeof(length));
  uint8_t* to = out_.get() + out_end_ + RecordCipher::kHeadBytes;
  uint8_t* run = to;
  seals_.Begin(length);
  ForPieces(parts, begin, text_bytes, [&](const uint8_t* from, size_t size) {
    if (size <= kCopiedPartMax) {
      std::memcpy(to, from, size);
    } else {
      if (run < to) seals_.Add(run, run, static_cast<size_t>(to - run));
      seals_.Add(from, to, size);
      run = to + size;
    }
    to += size;
  });
  if (run < to) seals_.Add(run, run, static_cast<size_t>(to - run));
  seals_.Seal(to);
  out_end_ += text_bytes + RecordCipher::kOverheadBytes;
  overhead_out_ += RecordCipher::kOverheadBytes;
}

ssize_t SealedStream::Write(int fd, absl::Span<const iovec> parts) {
  if (!WriteOut(fd)) return -1;
  out_at_ = out_end_ = 0;
  const size_t bytes = BytesOf(parts);
  size_t taken = 0;
  while (taken < bytes && kWriteBytes - out_end_ >= kRecordBytesMax) {
    const size_t text_bytes = std::min(bytes - taken, RecordCipher::kTextBytesMax);
    SealRecord(parts, taken, text_bytes);
    taken += text_bytes;
  }
  WriteOut(fd);
  return static_cast<ssize_t>(taken);
}

// Of the record that begins at in_at_. REQUIRES: its head has been read.
uint32_t SealedStream::TextBytes() const {
  uint32_t bytes = 0;
  std::memcpy(&bytes, in_.get() + in_at_, sizeof(bytes));
  return bytes;
}

// Or one whose length is a lie.
bool SealedStream::WholeRecord() const {
  if (held_bytes() < RecordCipher::kHeadBytes) return false;
  const size_t text = TextBytes();
  return text > RecordCipher::kTextBytesMax || held_bytes() >= text + RecordCipher::kOverheadBytes;
}

// What fits into `room` is opened to where it stays. False: fault_.
bool SealedStream::OpenRecord(absl::Span<const iovec> parts, size_t placed, size_t room) {
  const uint32_t text = TextBytes();
  if (text == 0 || text > RecordCipher::kTextBytesMax) {
    fault_ = SealFault::kLength;
    return false;
  }
  uint8_t* sealed = in_.get() + in_at_ + RecordCipher::kHeadBytes;
  opens_.Begin(text);
  const bool fits = text <= room;
  if (fits) {
    const uint8_t* from = sealed;
    ForPieces(parts, placed, text, [&](uint8_t* to, size_t size) {
      opens_.Add(from, to, size);
      from += size;
    });
  } else {
    opens_.Add(sealed, sealed, text);
  }
  if (!opens_.Open(sealed + text)) {
    fault_ = SealFault::kRecord;
    return false;
  }
  if (!fits) {
    text_at_ = static_cast<size_t>(sealed - in_.get());
    text_left_ = text;
  }
  in_at_ += text + RecordCipher::kOverheadBytes;
  overhead_in_ += RecordCipher::kOverheadBytes;
  return true;
}

size_t SealedStream::GiveText(absl::Span<const iovec> parts, size_t placed) {
  const size_t before = text_left_;
  const size_t room = BytesOf(parts) - placed;
  ForPieces(parts, placed, std::min(room, text_left_), [&](uint8_t* to, size_t size) {
    std::memcpy(to, in_.get() + text_at_, size);
    text_at_ += size;
    text_left_ -= size;
  });
  return before - text_left_;
}

// REQUIRES: no text is left, and no whole record.
ssize_t SealedStream::ReadIn(int fd) {
  if (in_at_ > 0 && kReadBytes - in_at_ < kRecordBytesMax) {
    std::memmove(in_.get(), in_.get() + in_at_, held_bytes());
    in_end_ = held_bytes();
    in_at_ = 0;
  } else if (in_at_ == in_end_) {
    in_at_ = in_end_ = 0;
  }
  const size_t room = kReadBytes - in_end_;
  const ssize_t got = recv(fd, in_.get() + in_end_, room, MSG_DONTWAIT);
  filled_ = got == static_cast<ssize_t>(room);
  if (got > 0) in_end_ += static_cast<size_t>(got);
  return got;
}

ssize_t SealedStream::Read(int fd, absl::Span<const iovec> parts) {
  const size_t room = BytesOf(parts);
  size_t placed = 0;
  while (placed < room) {
    if (text_left_ > 0) {
      placed += GiveText(parts, placed);
    } else if (fault_ != SealFault::kNone) {
      if (placed > 0) break;
      errno = EBADMSG;
      return -1;
    } else if (WholeRecord()) {
      const size_t text = TextBytes();
      if (!OpenRecord(parts, placed, room - placed)) continue;
      if (text_left_ == 0) placed += text;
    } else if (placed > 0) {
      break;
    } else if (const ssize_t got = ReadIn(fd); got <= 0) {
      return got;
    }
  }
  return static_cast<ssize_t>(placed);
}

}  // namespace soapstone::transport
