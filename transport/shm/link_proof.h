// LinkProof: how the two ends of a link through shared memory show each other which processes of
// the job they are, before any memory is handed over. Who listens says a nonce; who connects says
// which role's key it has, its process's own, a nonce of its own, and a proof of both keys; who
// listens proves the key by which others know its process. A nonce is the public half of a key that
// is made for this exchange. Each proves by the secret that its key agrees on with the *other's
// nonce*: of two roles' keys alone the secret is known to all who have either, and any worker could
// answer as the scheduler. A proof is over what was said, and over where the two meet. A value
// without I/O. Who calls: ShmLinks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "security/derived_key.h"
#include "security/job_keys.h"
#include "security/process_keys.h"

namespace soapstone::transport {

// What travels, as one packet.
struct ProofNote {
  enum class Word : uint32_t {
    kNonce = 1,   // who listens: `nonce`
    kClaim = 2,   // who connects: `role`, `nonce`, `key`, `proof`
    kAnswer = 3,  // who listens: `proof`
  };
  uint32_t magic = 0x46525053;  // "SPRF"
  uint32_t version = 2;
  Word word = Word::kNonce;
  uint32_t role = 0;  // security::KeyRole
  security::PublicKey nonce = {};
  security::PublicKey key = {};  // of the process
  security::Proof proof = {};
};
static_assert(sizeof(ProofNote) == 96);

// One end of a link: in which role, and which process.
struct LinkEnd {
  security::KeyRole role = security::KeyRole::kServer;
  security::PublicKey key = {};
  friend bool operator==(const LinkEnd&, const LinkEnd&) = default;
};

// Invariant: proven() only after a note that none could make who is not that process, nor, where it
// connects, has the role's key; and for this exchange alone.
class LinkProof {
 public:
  // Of who connects where `listener` is to be. `meeting`: what both see alike and nobody elsewhere
  // does, so that no proof can be passed on: the endpoint, and WhereNamesAre.
  LinkProof(std::shared_ptr<const security::ProcessKeys> keys, std::string meeting,
            const LinkEnd& listener);
  // Of who listens there.
  LinkProof(const std::shared_ptr<const security::ProcessKeys>& keys, std::string meeting);

  // What who listens says first. Nothing: there is no randomness.
  std::optional<ProofNote> First();
  // A note came. False: it is not what is to come now, or it proves nothing. `*answer`: what is to
  // be said to it, where something is.
  bool Take(const ProofNote& note, std::optional<ProofNote>* answer);

  bool proven() const { return proven_; }
  // REQUIRES: proven. In which role the other side is, and which process.
  security::KeyRole other() const { return listens_ ? connector_ : listener_.role; }
  const security::PublicKey& other_key() const { return listens_ ? connector_key_ : listener_.key; }

 private:
  bool TakeNonce(const ProofNote& note, std::optional<ProofNote>* answer);
  bool TakeClaim(const ProofNote& note, std::optional<ProofNote>* answer);
  // Over what was said, by the secret that `own` agrees on with `other`. Nothing: there is none.
  std::optional<security::Proof> ProofOf(std::string_view what, const security::Secret& own,
                                         const security::PublicKey& other) const;
  // Of both keys of who connects, by its secrets or by the nonce's.
  std::optional<security::Proof> ClaimBy(const security::Secret& of_role,
                                         const security::PublicKey& with_role,
                                         const security::Secret& of_process,
                                         const security::PublicKey& with_process) const;
  bool MakeNonce(security::PublicKey* nonce);

  std::shared_ptr<const security::ProcessKeys> keys_;
  std::string meeting_;
  LinkEnd listener_;
  security::KeyRole connector_;
  security::PublicKey connector_key_;
  bool listens_;
  bool said_ = false;  // the nonce of this side
  bool proven_ = false;
  security::PublicKey listener_nonce_ = {}, connector_nonce_ = {};
  security::Secret of_nonce_;  // of this side's
};

}  // namespace soapstone::transport
