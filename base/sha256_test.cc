#include "base/sha256.h"

#include "gtest/gtest.h"

namespace soapstone {
namespace {

// Vectors of FIPS 180-4.
TEST(Sha256, OfNothing) {
  EXPECT_EQ(Sha256().HexDigest(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, OfAbc) {
  Sha256 sha;
  sha.Update("abc", 3);
  EXPECT_EQ(sha.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesAddUp) {
  Sha256 sha;
  sha.Update("a", 1);
  sha.Update("", 0);
  sha.Update("bc", 2);
  EXPECT_EQ(sha.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace soapstone
