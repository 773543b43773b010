// Keys that are made of another key, and proofs that who made a text has the key: HKDF and HMAC,
// both with SHA-256. Called by whoever seals or proves; it knows no streams and no files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "security/secret.h"

namespace soapstone::security {

inline constexpr size_t kProofBytes = 16;
using Proof = std::array<uint8_t, kProofBytes>;

// HKDF (RFC 5869): `out` = Expand(Extract(salt, from), info). Another `info` gives another key, of
// which nothing can be learned by who has the others. REQUIRES: at most 255 * 32 bytes of `out`.
void Hkdf(absl::Span<const uint8_t> from, absl::Span<const uint8_t> salt, std::string_view info,
          absl::Span<uint8_t> out);

// The same without a salt: a key of its own for `purpose`.
Secret DerivedKey(const Secret& from, std::string_view purpose);

// The first 16 bytes of HMAC(key, text) (RFC 2104).
Proof ProofOf(const Secret& key, std::string_view text);

// Takes as long whatever the bytes are: nobody learns by trying how much of a guess is right.
bool EqualInConstantTime(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b);

}  // namespace soapstone::security
