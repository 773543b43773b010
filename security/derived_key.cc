#include "security/derived_key.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <vector>

#include "glog/logging.h"

namespace soapstone::security {
namespace {

// OpenSSL's parameters point at what it only reads.
OSSL_PARAM Octets(const char* name, const void* data, size_t size) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(data), size);
}

}  // namespace

void Hkdf(absl::Span<const uint8_t> from, absl::Span<const uint8_t> salt, std::string_view info,
          absl::Span<uint8_t> out) {
  char digest[] = "SHA256";
  std::vector<OSSL_PARAM> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      Octets(OSSL_KDF_PARAM_KEY, from.data(), from.size())};
  // It refuses those that are empty, and takes them for empty where they are not there.
  if (!salt.empty()) {
    parameters.push_back(Octets(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()));
  }
  if (!info.empty()) {
    parameters.push_back(Octets(OSSL_KDF_PARAM_INFO, info.data(), info.size()));
  }
  parameters.push_back(OSSL_PARAM_construct_end());
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  CHECK_EQ(EVP_KDF_derive(context, out.data(), out.size(), parameters.data()), 1);
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
}

Secret DerivedKey(const Secret& from, std::string_view purpose) {
  Secret key;
  Hkdf({from.data(), Secret::kBytes}, {}, purpose, {key.data(), Secret::kBytes});
  return key;
}

Proof ProofOf(const Secret& key, std::string_view text) {
  std::array<uint8_t, 32> whole = {};
  unsigned int size = 0;
  CHECK(HMAC(EVP_sha256(), key.data(), Secret::kBytes,
             reinterpret_cast<const uint8_t*>(text.data()), text.size(), whole.data(),
             &size) != nullptr);
  CHECK_EQ(size, whole.size());
  Proof proof;
  std::copy_n(whole.begin(), proof.size(), proof.begin());
  return proof;
}

bool EqualInConstantTime(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace soapstone::security
