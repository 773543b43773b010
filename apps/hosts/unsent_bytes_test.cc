#include "apps/hosts/unsent_bytes.h"

#include <gtest/gtest.h>

namespace soapstone::apps {
namespace {

TEST(UnsentBytesTest, LinesComeInOrderWhateverIsTakenAtOnce) {
  for (size_t at_once = 1; at_once < 12; ++at_once) {
    UnsentBytes unsent;
    std::string all;
    std::string taken;
    for (int i = 0; i < 50; ++i) {
      const std::string line(static_cast<size_t>(i % 7), static_cast<char>('a' + i % 26));
      unsent.AddLine(line);
      all += line + "\n";
      EXPECT_EQ(unsent.size(), all.size() - taken.size());
      const std::string_view front = unsent.front().substr(0, at_once);
      taken += front;
      unsent.Drop(front.size());
    }
    taken += unsent.front();
    unsent.Drop(unsent.size());
    EXPECT_TRUE(unsent.empty());
    EXPECT_EQ(taken, all);
  }
}

}  // namespace
}  // namespace soapstone::apps
