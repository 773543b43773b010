#include "security/key_agreement.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <memory>

namespace soapstone::security {

std::optional<Secret> AgreedSecret(const Secret& own, const PublicKey& other) {
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Context = std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)>;
  const Key ours(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, own.data(), Secret::kBytes),
                 EVP_PKEY_free);
  const Key theirs(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, other.data(), other.size()),
      EVP_PKEY_free);
  if (ours == nullptr || theirs == nullptr) return std::nullopt;
  const Context context(EVP_PKEY_CTX_new(ours.get(), nullptr), EVP_PKEY_CTX_free);
  Secret agreed;
  size_t size = Secret::kBytes;
  const bool agrees = context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
                      EVP_PKEY_derive_set_peer(context.get(), theirs.get()) == 1 &&
                      EVP_PKEY_derive(context.get(), agreed.data(), &size) == 1 &&
                      size == Secret::kBytes;
  if (!agrees) return std::nullopt;
  return agreed;
}

std::optional<KeyPair> MakeKeyPair() {
  KeyPair pair;
  if (getrandom(pair.secret.data(), Secret::kBytes, 0) != static_cast<ssize_t>(Secret::kBytes)) {
    return std::nullopt;
  }
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, pair.secret.data(), Secret::kBytes),
      EVP_PKEY_free);
  size_t size = pair.open.size();
  if (key == nullptr || EVP_PKEY_get_raw_public_key(key.get(), pair.open.data(), &size) != 1) {
    return std::nullopt;
  }
  return pair;
}

}  // namespace soapstone::security
