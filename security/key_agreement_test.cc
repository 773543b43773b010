#include "security/key_agreement.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::security {
namespace {

template <typename Key>
Key Octets(const char* hex) {
  Key key;
  const std::string bytes = absl::HexStringToBytes(hex);
  std::memcpy(key.data(), bytes.data(), Secret::kBytes);
  return key;
}

std::string Text(const Secret& secret) {
  return std::string(reinterpret_cast<const char*>(secret.data()), Secret::kBytes);
}

// RFC 7748, 5.2.
TEST(KeyAgreementTest, X25519HasTheVectorOfItsText) {
  const auto agreed = AgreedSecret(
      Octets<Secret>("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
      Octets<PublicKey>("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"));
  ASSERT_TRUE(agreed.has_value());
  EXPECT_EQ(absl::BytesToHexString(Text(*agreed)),
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
}

TEST(KeyAgreementTest, RolesOfAJobAgreeInPairs) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/agreement-keys");
  for (const KeyRole role : kKeyRoles) {
    std::remove(absl::StrCat(folder, "/", NameOf(role), ".key").c_str());
  }
  ASSERT_TRUE(GenerateKeys(folder).ok());
  const JobKeys worker = *ReadJobKeys(folder, KeyRole::kWorker);
  const JobKeys server = *ReadJobKeys(folder, KeyRole::kServer);
  const JobKeys scheduler = *ReadJobKeys(folder, KeyRole::kScheduler);
  const auto here = AgreedSecret(worker.secret, worker.PublicOf(KeyRole::kServer));
  const auto there = AgreedSecret(server.secret, server.PublicOf(KeyRole::kWorker));
  const auto other = AgreedSecret(scheduler.secret, scheduler.PublicOf(KeyRole::kWorker));
  ASSERT_TRUE(here.has_value() && there.has_value() && other.has_value());
  EXPECT_EQ(Text(*here), Text(*there));
  EXPECT_NE(Text(*here), Text(*other));
}

TEST(KeyAgreementTest, AKeyThatAgreesWithEverybodyAgreesWithNobody) {
  EXPECT_FALSE(AgreedSecret(Octets<Secret>(std::string(64, '7').c_str()), PublicKey{}).has_value());
}

TEST(KeyAgreementTest, PairsAreNewAndAgree) {
  const auto one = MakeKeyPair(), two = MakeKeyPair();
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_NE(one->open, two->open);
  const auto here = AgreedSecret(one->secret, two->open),
             there = AgreedSecret(two->secret, one->open);
  ASSERT_TRUE(here.has_value() && there.has_value());
  EXPECT_EQ(std::memcmp(here->data(), there->data(), Secret::kBytes), 0);
}

}  // namespace
}  // namespace soapstone::security
