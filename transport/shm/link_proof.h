// LinkProof: how the two ends of a link through shared memory show each other that they have keys
// of the job, before any memory is handed over. Who listens says a nonce; who connects says which
// role's key it has, a nonce of its own, and a proof; who listens proves its own. A nonce is the
// public half of a key that is made for this exchange. Each proves by the secret that its role's
// key agrees on with the *other's nonce*: of two roles' keys alone the secret is known to all who
// have either, and any worker could answer as the scheduler. A proof is over what was said, and
// over where the two meet. A value without I/O. Who calls: ShmLinks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "security/derived_key.h"
#include "security/job_keys.h"

namespace soapstone::transport {

// What travels, as one packet.
struct ProofNote {
  enum class Word : uint32_t {
    kNonce = 1,   // who listens: `nonce`
    kClaim = 2,   // who connects: `role`, `nonce`, `proof`
    kAnswer = 3,  // who listens: `proof`
  };
  uint32_t magic = 0x46525053;  // "SPRF"
  uint32_t version = 1;
  Word word = Word::kNonce;
  uint32_t role = 0;  // security::KeyRole
  security::PublicKey nonce = {};
  security::Proof proof = {};
};
static_assert(sizeof(ProofNote) == 64);

// Invariant: proven() only after a note that none could make who has no key of the role, and for
// this exchange alone.
class LinkProof {
 public:
  // Of who connects where somebody with the key of `listener` is to be; `listens`: of who listens
  // there itself. `meeting`: what both see alike and nobody elsewhere does, so that no proof can be
  // passed on: the endpoint, and WhereNamesAre.
  LinkProof(std::shared_ptr<const security::JobKeys> keys, std::string meeting,
            security::KeyRole listener, bool listens);

  // What who listens says first. Nothing: there is no randomness.
  std::optional<ProofNote> First();
  // A note came. False: it is not what is to come now, or it proves nothing. `*answer`: what is to
  // be said to it, where something is.
  bool Take(const ProofNote& note, std::optional<ProofNote>* answer);

  bool proven() const { return proven_; }
  // REQUIRES: proven. Whose key the other side has.
  security::KeyRole other() const { return listens_ ? connector_ : listener_; }

 private:
  bool TakeNonce(const ProofNote& note, std::optional<ProofNote>* answer);
  bool TakeClaim(const ProofNote& note, std::optional<ProofNote>* answer);
  // By the secret that `own` agrees on with `other`. Nothing: there is none.
  std::optional<security::Proof> ProofOf(const char* what, const security::Secret& own,
                                         const security::PublicKey& other) const;
  bool MakeNonce(security::PublicKey* nonce);

  std::shared_ptr<const security::JobKeys> keys_;
  std::string meeting_;
  security::KeyRole listener_;
  security::KeyRole connector_;
  bool listens_;
  bool said_ = false;  // the nonce of this side
  bool proven_ = false;
  security::PublicKey listener_nonce_ = {}, connector_nonce_ = {};
  security::Secret of_nonce_;  // of this side's
};

}  // namespace soapstone::transport
