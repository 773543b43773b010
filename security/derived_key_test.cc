#include "security/derived_key.h"

#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace soapstone::security {
namespace {

std::string HexOf(absl::Span<const uint8_t> bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// RFC 5869, A.1 and A.3.
TEST(DerivedKeyTest, HkdfHasTheVectorsOfItsText) {
  const std::array<uint8_t, 22> from = {0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b,
                                        0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b,
                                        0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b};
  const std::array<uint8_t, 13> salt = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::array<uint8_t, 42> out = {};
  Hkdf(from, salt, "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9", absl::MakeSpan(out));
  EXPECT_EQ(HexOf(out),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  Hkdf(from, {}, "", absl::MakeSpan(out));
  EXPECT_EQ(HexOf(out),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

// RFC 4231, test case 2: HMAC fills a key up with zeros.
TEST(DerivedKeyTest, ProofsHaveTheVectorOfTheirText) {
  Secret key;
  std::memcpy(key.data(), "Jefe", 4);
  EXPECT_EQ(HexOf(ProofOf(key, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c7");
  const Secret other = DerivedKey(key, "other");
  EXPECT_NE(HexOf(ProofOf(other, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c7");
}

TEST(DerivedKeyTest, EachPurposeHasAKeyOfItsOwn) {
  const Secret key;
  const Secret one = DerivedKey(key, "one"), same = DerivedKey(key, "one");
  const Secret two = DerivedKey(key, "two");
  EXPECT_EQ(std::memcmp(one.data(), same.data(), Secret::kBytes), 0);
  EXPECT_NE(std::memcmp(one.data(), two.data(), Secret::kBytes), 0);
  EXPECT_NE(std::memcmp(one.data(), key.data(), Secret::kBytes), 0);
}

TEST(DerivedKeyTest, BytesAreComparedToTheEnd) {
  const Proof proof = {1, 2, 3};
  EXPECT_TRUE(EqualInConstantTime(proof, Proof(proof)));
  for (size_t i = 0; i < proof.size(); ++i) {
    Proof other = proof;
    other[i] ^= 0x80;
    EXPECT_FALSE(EqualInConstantTime(proof, other)) << i;
  }
  EXPECT_FALSE(EqualInConstantTime(proof, absl::MakeConstSpan(proof).first(15)));
}

}  // namespace
}  // namespace soapstone::security
