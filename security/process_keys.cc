#include "security/process_keys.h"

#include <algorithm>
#include <utility>

namespace soapstone::security {

std::optional<Proof> ProcessKeys::ProofTo(const PublicKey& other, std::string_view text) const {
  const std::optional<Secret> agreed = AgreedSecret(own.secret, other);
  if (!agreed.has_value()) return std::nullopt;
  return ProofOf(*agreed, text);
}

std::shared_ptr<const ProcessKeys> MakeProcessKeys(std::shared_ptr<const JobKeys> job) {
  auto keys = std::make_shared<ProcessKeys>();
  if (job->role == KeyRole::kScheduler) {
    keys->own = {.secret = job->secret, .open = job->own()};
  } else {
    const std::optional<KeyPair> made = MakeKeyPair();
    if (!made.has_value()) return nullptr;
    keys->own = *made;
  }
  keys->job = std::move(job);
  return keys;
}

std::string BytesOf(const PublicKey& key) { return std::string(key.begin(), key.end()); }

std::optional<PublicKey> PublicKeyOf(std::string_view bytes) {
  PublicKey key;
  if (bytes.size() != key.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

}  // namespace soapstone::security
