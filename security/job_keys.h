// JobKeys: by what the processes of a job know each other: a CURVE25519 pair a role. A process has
// the secret of its own role, and the public keys of all of them; who has none of the secrets is a
// stranger. Files are made by `soapstone keygen`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/secret.h"

namespace soapstone::security {

enum class KeyRole : uint8_t { kScheduler = 0, kServer = 1, kWorker = 2 };
inline constexpr std::array<KeyRole, 3> kKeyRoles = {KeyRole::kScheduler, KeyRole::kServer,
                                                     KeyRole::kWorker};
const char* NameOf(KeyRole role);  // "scheduler"

using PublicKey = std::array<uint8_t, Secret::kBytes>;

// Invariants: the secret is that of public_keys[role]; no two public keys are equal.
struct JobKeys {
  KeyRole role = KeyRole::kScheduler;
  Secret secret;
  std::array<PublicKey, kKeyRoles.size()> public_keys = {};  // by KeyRole

  const PublicKey& PublicOf(KeyRole of) const { return public_keys[static_cast<size_t>(of)]; }
  const PublicKey& own() const { return PublicOf(role); }
  // Whose key it is. Nothing: a stranger's.
  std::optional<KeyRole> RoleOf(std::string_view public_key) const;
};

// The first 16 hexadecimal digits of the key's SHA-256: to compare files by, no secret.
std::string Fingerprint(const PublicKey& key);

// `path`, or ROLE.key in it where it is a folder.
std::string KeyFileOf(const std::string& path, KeyRole role);

// Reads KeyFileOf(path, role). Error: InvalidArgument with one line that
// names the file, and tells nothing of what is in it: it cannot be read, others than its owner may
// read it (with the mode to set), it is no key file, or of another role.
absl::StatusOr<JobKeys> ReadJobKeys(const std::string& path, KeyRole role);

// The text of that file, for a process of the role that reads it elsewhere. Errors: those of
// ReadJobKeys.
absl::StatusOr<std::string> ReadKeyText(const std::string& path, KeyRole role);

// Makes new keys, and ROLE.key for each role in `folder`, which is made where it is not there.
// Files are for their owner alone. Error: InvalidArgument: one of the files exists (nothing is
// overwritten), or cannot be written; then none of them is left.
absl::StatusOr<JobKeys> GenerateKeys(const std::string& folder);

}  // namespace soapstone::security
