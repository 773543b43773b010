// StreamSeal: what seals one stream of a job with keys. The side that offers the stream makes its
// keys, and they travel in the offer, which CURVE seals (transport/tcp/handshake.h). Of them each
// connection of the stream has record keys of its own, and each side proofs for its hellos, so that
// the token is never shown. A value. Who calls: TcpLink.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "transport/tcp/handshake.h"
#include "transport/tcp/sealed_stream.h"

namespace soapstone::transport {

class StreamSeal {
 public:
  // Of a stream of a job without keys: says the token, and there are no records.
  explicit StreamSeal(const StreamToken& token = {}) : token_(token) {}
  // `asked`: this side asked for the stream, the other one offered it.
  StreamSeal(const StreamToken& token, const StreamKeys& keys, bool asked);

  // New keys for an offer, for a cipher that both sets have; none where `here` is empty: streams
  // are in clear. Nothing: no cipher is in both, or there is no randomness.
  static std::optional<StreamKeys> MakeKeys(uint8_t here, uint8_t there);

  // What this side says; without keys the token, and nothing in an answer.
  void Prove(StreamHello* hello, bool answer) const;
  // The other side's hello, or its answer, is from who has the token, and as that made it.
  bool Proves(const StreamHello& hello, bool answer) const;

  bool seals() const { return keys_.cipher != security::Cipher::kNone; }
  // For the connection of this number, of which there is one only. Null: without keys.
  std::unique_ptr<SealedStream> Of(uint32_t connection) const;

 private:
  StreamToken ProofOf(const StreamHello& hello, const security::Secret& key) const;

  StreamToken token_ = {};
  StreamKeys keys_;
  bool asked_ = false;
  uint32_t stream_ = 0;  // which one: says nothing of the keys, need not differ from all others
  security::Secret proves_here_, proves_there_;
};

}  // namespace soapstone::transport
