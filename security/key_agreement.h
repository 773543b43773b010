// Key agreement: the secret that two who know each other's public keys have together, and nobody
// else. Called by who proves whose key it has.
#pragma once

#include <optional>

#include "security/job_keys.h"
#include "security/secret.h"

namespace soapstone::security {

// X25519 (RFC 7748) of one's own secret and the other's public key: both get the same. Nothing: the
// public key is one of the few that agree with everybody on the same secret, or no key.
std::optional<Secret> AgreedSecret(const Secret& own, const PublicKey& other);

// A key of its own for one exchange, which nobody else has ever.
struct KeyPair {
  Secret secret;
  PublicKey open = {};
};
std::optional<KeyPair> MakeKeyPair();  // nothing: there is no randomness

}  // namespace soapstone::security
