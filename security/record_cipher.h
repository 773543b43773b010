// RecordCipher: seals the bytes of one direction of a connection in records, or opens them. A
// record is its length (u32, little-endian, of the sealed text; authenticated with it), the sealed
// text, and a tag of 16 bytes. Called by SealedStream (transport/tcp/sealed_stream.h); it knows no
// sockets.
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "security/secret.h"

namespace soapstone::security {

// Authenticated encryption. A bit of a set, in a byte on the wire.
enum class Cipher : uint8_t {
  kNone = 0,
  kAes256Gcm = 1,
  kChaCha20Poly1305 = 2,
};
// One that this OpenSSL has; not kNone, and not a set of several.
bool IsCipher(uint8_t value);
// Those that this machine is to be asked for, as a set: without AES instructions only the second,
// where OpenSSL has it.
uint8_t CiphersHere();
// The first of both sets; kNone: they have none in common.
Cipher CommonCipher(uint8_t these, uint8_t those);

// Invariants
//  1. No nonce is used twice with a key: it is the number of the record, and a cipher is made with
//     a key that no other of the same direction ever has.
//  2. After `records_per_key` records the key is replaced by one derived from it, and forgotten.
//  3. What was changed, left out, repeated or put elsewhere does not open.
// A value that can be moved. REQUIRES: IsCipher.
class RecordCipher {
 public:
  static constexpr size_t kHeadBytes = 4;
  static constexpr size_t kTagBytes = 16;
  static constexpr size_t kOverheadBytes = kHeadBytes + kTagBytes;
  static constexpr size_t kTextBytesMax = size_t{64} << 10;
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 20;

  enum class Use : uint8_t { kSeal, kOpen };
  RecordCipher(Cipher cipher, const Secret& key, Use use,
               uint64_t records_per_key = kRecordsPerKey);
  RecordCipher(RecordCipher&&) = default;
  RecordCipher& operator=(RecordCipher&&) = default;
  ~RecordCipher();

  // The next record begins, of so many bytes: its text follows by Add, piece by piece, then Seal or
  // Open.
  void Begin(uint32_t bytes);
  // Sealed from, or opened to, `to`; both may be the same.
  void Add(const void* from, void* to, size_t bytes);
  void Seal(uint8_t* tag);  // writes the tag
  // False: the record is not the one that was sealed as this one. What Add gave out is nothing.
  bool Open(const uint8_t* tag);

  uint64_t records() const { return records_; }  // begun

  // With a nonce and associated data of one's own, as published test vectors have them.
  void Begin(const uint8_t* nonce, const void* associated, size_t bytes);

 private:
  struct FreeContext {
    void operator()(EVP_CIPHER_CTX* context) const;
  };
  void SetKey();

  Use use_;
  uint64_t records_per_key_;
  uint64_t records_ = 0;
  Secret key_;
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context_;
};

}  // namespace soapstone::security
