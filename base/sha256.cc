#include "base/sha256.h"

#include <openssl/evp.h>

#include <string_view>

#include "absl/strings/escaping.h"
#include "glog/logging.h"

namespace soapstone {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CHECK_EQ(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr), 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(const void* data, size_t size) {
  CHECK_EQ(EVP_DigestUpdate(context_->evp, data, size), 1);
}

std::string Sha256::HexDigest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  CHECK_EQ(EVP_DigestFinal_ex(context_->evp, digest, &length), 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), length));
}

}  // namespace soapstone
