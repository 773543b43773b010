#include "security/record_cipher.h"

#include <openssl/evp.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstring>

#include "glog/logging.h"
#include "security/derived_key.h"

namespace soapstone::security {
namespace {

constexpr int kNonceBytes = 12;
constexpr char kNextKey[] = "soapstone next key";

const char* NameOf(Cipher cipher) {
  return cipher == Cipher::kAes256Gcm ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

// A configuration of OpenSSL may leave ciphers out.
bool IsThere(Cipher cipher) {
  EVP_CIPHER* fetched = EVP_CIPHER_fetch(nullptr, NameOf(cipher), nullptr);
  EVP_CIPHER_free(fetched);
  return fetched != nullptr;
}

bool HasAesInstructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_AES) != 0 && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#else
  return false;
#endif
}

}  // namespace

bool IsCipher(uint8_t value) {
  const auto cipher = static_cast<Cipher>(value);
  return (cipher == Cipher::kAes256Gcm || cipher == Cipher::kChaCha20Poly1305) && IsThere(cipher);
}

uint8_t CiphersHere() {
  const bool chacha = IsThere(Cipher::kChaCha20Poly1305);
  const bool aes = IsThere(Cipher::kAes256Gcm) && (HasAesInstructions() || !chacha);
  return static_cast<uint8_t>((aes ? static_cast<int>(Cipher::kAes256Gcm) : 0) |
                              (chacha ? static_cast<int>(Cipher::kChaCha20Poly1305) : 0));
}

Cipher CommonCipher(uint8_t these, uint8_t those) {
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    if ((these & those & static_cast<uint8_t>(cipher)) != 0) return cipher;
  }
  return Cipher::kNone;
}

void RecordCipher::FreeContext::operator()(EVP_CIPHER_CTX* context) const {
  EVP_CIPHER_CTX_free(context);  // wipes what it has of the key
}

RecordCipher::RecordCipher(Cipher cipher, const Secret& key, Use use, uint64_t records_per_key)
    : use_(use), records_per_key_(records_per_key), key_(key), context_(EVP_CIPHER_CTX_new()) {
  EVP_CIPHER* fetched = EVP_CIPHER_fetch(nullptr, NameOf(cipher), nullptr);
  CHECK(fetched != nullptr) << "OpenSSL has no " << NameOf(cipher);
  const int seals = use_ == Use::kSeal ? 1 : 0;
  CHECK_EQ(EVP_CipherInit_ex(context_.get(), fetched, nullptr, nullptr, nullptr, seals), 1);
  EVP_CIPHER_free(fetched);
  SetKey();
}

RecordCipher::~RecordCipher() = default;

void RecordCipher::SetKey() {
  CHECK_EQ(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, key_.data(), nullptr, -1), 1);
}

void RecordCipher::Begin(uint32_t bytes) {
  if (records_ > 0 && records_ % records_per_key_ == 0) {
    key_ = DerivedKey(key_, kNextKey);
    SetKey();
  }
  uint8_t nonce[kNonceBytes] = {};
  std::memcpy(nonce + kNonceBytes - sizeof(records_), &records_, sizeof(records_));
  ++records_;
  Begin(nonce, &bytes, sizeof(bytes));
}

void RecordCipher::Begin(const uint8_t* nonce, const void* associated, size_t bytes) {
  int taken = 0;
  CHECK_EQ(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce, -1), 1);
  CHECK_EQ(EVP_CipherUpdate(context_.get(), nullptr, &taken,
                            static_cast<const uint8_t*>(associated), static_cast<int>(bytes)),
           1);
}

void RecordCipher::Add(const void* from, void* to, size_t bytes) {
  int given = 0;
  CHECK_EQ(EVP_CipherUpdate(context_.get(), static_cast<uint8_t*>(to), &given,
                            static_cast<const uint8_t*>(from), static_cast<int>(bytes)),
           1);
  CHECK_EQ(static_cast<size_t>(given), bytes);  // both are stream ciphers
}

void RecordCipher::Seal(uint8_t* tag) {
  uint8_t none[kTagBytes];
  int given = 0;
  CHECK_EQ(EVP_CipherFinal_ex(context_.get(), none, &given), 1);
  CHECK_EQ(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag), 1);
}

bool RecordCipher::Open(const uint8_t* tag) {
  uint8_t copy[kTagBytes], none[kTagBytes];
  int given = 0;
  std::memcpy(copy, tag, kTagBytes);
  CHECK_EQ(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, copy), 1);
  return EVP_CipherFinal_ex(context_.get(), none, &given) == 1;
}

}  // namespace soapstone::security
