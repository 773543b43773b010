#include "security/record_cipher.h"

#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace soapstone::security {
namespace {

std::string Bytes(const char* hex) { return absl::HexStringToBytes(hex); }

Secret KeyOf(const std::string& bytes) {
  Secret key;
  std::memcpy(key.data(), bytes.data(), Secret::kBytes);
  return key;
}

struct Vector {
  const char* name;
  Cipher cipher;
  std::string key, nonce, associated, text, sealed, tag;
};

std::vector<Vector> Vectors() {
  const std::string sunscreen =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
      "sunscreen would be it.";
  const std::string zeros(32, '\0');
  return {
      {"GCM 13", Cipher::kAes256Gcm, zeros, zeros.substr(0, 12), "", "", "",
       Bytes("530f8afbc74536b9a963b4f1c4cb738b")},
      {"GCM 14", Cipher::kAes256Gcm, zeros, zeros.substr(0, 12), "", zeros.substr(0, 16),
       Bytes("cea7403d4d606b6e074ec5d3baf39d18"), Bytes("d0d1c8a799996bf0265b98b5d48ab919")},
      {"GCM 16", Cipher::kAes256Gcm,
       Bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"),
       Bytes("cafebabefacedbaddecaf888"), Bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
       Bytes(
           "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e"
           "2449a6b525b16aedf5aa0de657ba637b39"),
       Bytes(
           "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b"
           "1056828838c5f61e6393ba7a0abcc9f662"),
       Bytes("76fc6ece0f4e1768cddf8853bb2d551b")},
      {"RFC 8439, 2.8.2", Cipher::kChaCha20Poly1305,
       Bytes("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"),
       Bytes("070000004041424344454647"), Bytes("50515253c0c1c2c3c4c5c6c7"), sunscreen,
       Bytes(
           "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb"
           "69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad6"
           "75945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116"),
       Bytes("1ae10b594f09e26a7e902ecbd0600691")},
  };
}

// The text in pieces of `piece` bytes.
void AddAll(const std::string& from, size_t piece, std::string* to, RecordCipher* cipher) {
  to->resize(from.size());
  for (size_t at = 0; at < from.size(); at += piece) {
    cipher->Add(from.data() + at, to->data() + at, std::min(piece, from.size() - at));
  }
}

std::string TagOf(RecordCipher* cipher) {
  std::string tag(RecordCipher::kTagBytes, '\0');
  cipher->Seal(reinterpret_cast<uint8_t*>(tag.data()));
  return tag;
}

const uint8_t* Octets(const std::string& bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

TEST(RecordCipherTest, CiphersHaveTheVectorsOfTheirTexts) {
  for (const Vector& v : Vectors()) {
    for (const size_t piece : {1, 5, 16, 1000}) {
      SCOPED_TRACE(testing::Message() << v.name << " in pieces of " << piece);
      RecordCipher seals(v.cipher, KeyOf(v.key), RecordCipher::Use::kSeal);
      RecordCipher opens(v.cipher, KeyOf(v.key), RecordCipher::Use::kOpen);
      std::string sealed, text;
      seals.Begin(Octets(v.nonce), v.associated.data(), v.associated.size());
      AddAll(v.text, piece, &sealed, &seals);
      EXPECT_EQ(sealed, v.sealed);
      EXPECT_EQ(TagOf(&seals), v.tag);
      opens.Begin(Octets(v.nonce), v.associated.data(), v.associated.size());
      AddAll(v.sealed, piece, &text, &opens);
      EXPECT_EQ(text, v.text);
      EXPECT_TRUE(opens.Open(Octets(v.tag)));
    }
  }
}

struct Record {
  uint32_t bytes = 0;
  std::string sealed, tag;
};

std::vector<Record> Sealed(Cipher cipher, const Secret& key, uint64_t records_per_key, int count) {
  RecordCipher seals(cipher, key, RecordCipher::Use::kSeal, records_per_key);
  std::vector<Record> records;
  for (int i = 0; i < count; ++i) {
    const std::string text(10 + i, 'x');
    Record record = {.bytes = static_cast<uint32_t>(text.size())};
    seals.Begin(record.bytes);
    AddAll(text, 7, &record.sealed, &seals);
    record.tag = TagOf(&seals);
    records.push_back(std::move(record));
  }
  return records;
}

// How many open, up to the first that does not.
int Opened(Cipher cipher, const Secret& key, uint64_t records_per_key,
           const std::vector<Record>& records) {
  RecordCipher opens(cipher, key, RecordCipher::Use::kOpen, records_per_key);
  int count = 0;
  for (const Record& record : records) {
    std::string text;
    opens.Begin(record.bytes);
    AddAll(record.sealed, 9, &text, &opens);
    if (!opens.Open(Octets(record.tag))) break;
    EXPECT_EQ(text, std::string(10 + count, 'x'));
    ++count;
  }
  return count;
}

TEST(RecordCipherTest, KeysAreReplacedOnBothSides) {
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    const Secret key = KeyOf(std::string(32, 'k'));
    const std::vector<Record> records = Sealed(cipher, key, 4, 14);
    EXPECT_EQ(Opened(cipher, key, 4, records), 14);
    EXPECT_EQ(Opened(cipher, key, 5, records), 4) << "the key was not replaced";
    EXPECT_EQ(Opened(cipher, key, RecordCipher::kRecordsPerKey, records), 4);
  }
}

TEST(RecordCipherTest, OtherKeysLengthsAndPlacesDoNotOpen) {
  for (const Cipher cipher : {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305}) {
    const Secret key = KeyOf(std::string(32, 'k'));
    const uint64_t per_key = RecordCipher::kRecordsPerKey;
    const std::vector<Record> good = Sealed(cipher, key, per_key, 4);
    EXPECT_EQ(Opened(cipher, key, per_key, good), 4);
    EXPECT_EQ(Opened(cipher, KeyOf(std::string(31, 'k') + 'l'), per_key, good), 0);
    const auto opened = [&](const std::vector<int>& order) {
      std::vector<Record> records;
      for (const int i : order) records.push_back(good[static_cast<size_t>(i)]);
      return Opened(cipher, key, per_key, records);
    };
    EXPECT_EQ(opened({1, 0}), 0) << "swapped";
    EXPECT_EQ(opened({0, 0}), 1) << "repeated";
    EXPECT_EQ(opened({0, 2}), 1) << "left out";
    std::vector<Record> lies = good;
    lies[1].bytes += 1;
    EXPECT_EQ(Opened(cipher, key, per_key, lies), 1) << "of another length";
    lies = good;
    lies[1].sealed.pop_back();
    EXPECT_EQ(Opened(cipher, key, per_key, lies), 1) << "cut";
  }
}

TEST(RecordCipherTest, BothEndsAgree) {
  EXPECT_EQ(CommonCipher(3, 3), Cipher::kAes256Gcm);
  EXPECT_EQ(CommonCipher(3, 2), Cipher::kChaCha20Poly1305);
  EXPECT_EQ(CommonCipher(2, 3), Cipher::kChaCha20Poly1305);
  EXPECT_EQ(CommonCipher(1, 2), Cipher::kNone);
  EXPECT_EQ(CommonCipher(3, 0), Cipher::kNone);
  EXPECT_EQ(CommonCipher(0xfc, 0xff), Cipher::kNone) << "bits of no cipher";
  EXPECT_NE(CommonCipher(CiphersHere(), CiphersHere()), Cipher::kNone);
  EXPECT_TRUE(IsCipher(static_cast<uint8_t>(CommonCipher(CiphersHere(), CiphersHere()))));
  for (const uint8_t none : {0, 3, 4, 255}) EXPECT_FALSE(IsCipher(none)) << int{none};
}

}  // namespace
}  // namespace soapstone::security
