// Handshake: what two transports tell each other over ZeroMQ, of the connection itself and to agree
// on a stream (transport/tcp/tcp_links.h). A message of one frame that is not a wire::Message.
// docs/wire.md has the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/memory/buffer.h"
#include "security/job_keys.h"
#include "security/record_cipher.h"
#include "security/secret.h"
#include "wire/session.h"

namespace soapstone::transport {

using StreamToken = std::array<uint8_t, 16>;

// What seals a stream, of a job with keys.
struct StreamKeys {
  security::Cipher cipher = security::Cipher::kNone;  // kNone: the stream is in clear
  security::Secret from_asker, from_offerer;          // of what they send
};

struct Handshake {
  enum class Word : uint16_t {
    kAsk = 1,     // who connected would like a stream
    kOffer = 2,   // the other side: connect to `port`, and say `token` there
    kRefuse = 3,  // the other side: there is none to be had
    kSwitch = 4,  // either: what follows from me comes by the stream
    kHere = 5,    // who connected: a connection of the job; of no stream, number 0
    // Who connected, first of all, of a job with keys: which process it is, which `token` proves
    // (transport/node/rank_holders.h); of no stream. With the session it is a kHere too.
    kProcess = 6,
  };
  bool IsOfStream() const { return word != Word::kHere && word != Word::kProcess; }

  Word word = Word::kAsk;
  uint16_t port = 0;
  uint64_t session = 0;  // the job's: others are not listened to
  uint64_t number = 0;   // of the attempt, chosen by who asks
  StreamToken token = {};
  uint8_t ciphers = 0;           // kAsk: the set of those that may be offered
  StreamKeys keys;               // kOffer
  security::PublicKey key = {};  // kProcess
};

// 48 bytes, 80 of a process, or 112 of an offer with keys.
std::string EncodeNote(const Handshake& note);
bool IsNote(const Buffer& frame);
// Empty: not a note, of another version, or of a cipher that is not known.
std::optional<Handshake> DecodeNote(const Buffer& frame);

// What each side says first on a connection of the stream: who connects says the token it was
// given, and which connection of the stream this is; both say how far they are. Of a job with keys
// the token is not said but proved, on both sides (transport/tcp/stream_seal.h).
struct StreamHello {
  enum class Verdict : uint16_t {
    kGoOn = 0,
    kUnknown = 1,  // the answer: no stream of that token here, or the other side is out of step
  };
  Verdict verdict = Verdict::kGoOn;
  uint32_t connection = 0;  // of the stream, from 1: a later one takes the place of an earlier
  uint32_t stream = 0;      // which one, of a job with keys
  StreamToken token = {};   // zeros in the answer; of a job with keys the proof
  wire::SessionGreeting greeting;
};
inline constexpr size_t kStreamHelloBytes = 56;
std::string EncodeStreamHello(const StreamHello& hello);
// Empty: not a hello, or of another version.
std::optional<StreamHello> DecodeStreamHello(const char* bytes);

}  // namespace soapstone::transport
