// ProcessKeys: by what a process of a job with keys is known: in its role by the role's key, which
// all processes of that role have, and as itself by a pair that nobody else has. Rosters say which
// process has which rank, by the public half; who connects proves that it has the other one. Made
// at the start of a process; written nowhere.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "security/derived_key.h"
#include "security/job_keys.h"
#include "security/key_agreement.h"
#include "security/secret.h"

namespace soapstone::security {

// Invariant: `own` is no other process's. The scheduler, of which a job has one, is itself by its
// role's key, which all others know before they have heard anything.
struct ProcessKeys {
  std::shared_ptr<const JobKeys> job;
  KeyPair own;

  // By the secret of this process and the other's public key, of `text`: both know the same one,
  // and nobody else. Nothing: that is no key.
  std::optional<Proof> ProofTo(const PublicKey& other, std::string_view text) const;
};

// Null: there is no randomness.
std::shared_ptr<const ProcessKeys> MakeProcessKeys(std::shared_ptr<const JobKeys> job);

// As messages have it. Nothing: it is not as long as a key.
std::string BytesOf(const PublicKey& key);
std::optional<PublicKey> PublicKeyOf(std::string_view bytes);

}  // namespace soapstone::security
