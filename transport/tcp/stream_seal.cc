#include "transport/tcp/stream_seal.h"

#include <sys/random.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "security/derived_key.h"

namespace soapstone::transport {
namespace {

using security::DerivedKey;
using security::Secret;

constexpr char kOfHellos[] = "soapstone stream hellos";
constexpr char kOfRecords[] = "soapstone stream records ";  // and the connection's number

bool Randomize(Secret* secret) {
  return getrandom(secret->data(), Secret::kBytes, 0) == static_cast<ssize_t>(Secret::kBytes);
}

}  // namespace

StreamSeal::StreamSeal(const StreamToken& token, const StreamKeys& keys, bool asked)
    : token_(token), keys_(keys), asked_(asked) {
  if (!seals()) return;
  const Secret of_asker = DerivedKey(keys.from_asker, kOfHellos);
  const Secret of_offerer = DerivedKey(keys.from_offerer, kOfHellos);
  proves_here_ = asked ? of_asker : of_offerer;
  proves_there_ = asked ? of_offerer : of_asker;
  const security::Proof whole = security::ProofOf(of_asker, "stream");
  std::memcpy(&stream_, whole.data(), sizeof(stream_));
}

std::optional<StreamKeys> StreamSeal::MakeKeys(uint8_t here, uint8_t there) {
  StreamKeys keys;
  if (here == 0) return keys;
  keys.cipher = security::CommonCipher(here, there);
  const bool made = keys.cipher != security::Cipher::kNone && Randomize(&keys.from_asker) &&
                    Randomize(&keys.from_offerer);
  if (!made) return std::nullopt;
  return keys;
}

// Of the whole hello, with the token in its place.
StreamToken StreamSeal::ProofOf(const StreamHello& hello, const Secret& key) const {
  StreamHello whole = hello;
  whole.token = token_;
  return security::ProofOf(key, EncodeStreamHello(whole));
}

void StreamSeal::Prove(StreamHello* hello, bool answer) const {
  hello->stream = stream_;
  if (seals()) {
    hello->token = ProofOf(*hello, proves_here_);
  } else if (!answer) {
    hello->token = token_;
  }
}

bool StreamSeal::Proves(const StreamHello& hello, bool answer) const {
  if (!seals()) return answer || security::EqualInConstantTime(hello.token, token_);
  return hello.stream == stream_ &&
         security::EqualInConstantTime(hello.token, ProofOf(hello, proves_there_));
}

std::unique_ptr<SealedStream> StreamSeal::Of(uint32_t connection) const {
  if (!seals()) return nullptr;
  const std::string purpose = absl::StrCat(kOfRecords, connection);
  const Secret asker = DerivedKey(keys_.from_asker, purpose);
  const Secret offerer = DerivedKey(keys_.from_offerer, purpose);
  return std::make_unique<SealedStream>(keys_.cipher, asked_ ? asker : offerer,
                                        asked_ ? offerer : asker);
}

}  // namespace soapstone::transport
