#include "apps/hosts/memory_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

namespace soapstone::apps {
namespace {

TEST(MemoryFileTest, ItIsAFileOfItsOwnerThatIsReadAgainAndAgain) {
  const std::string text(100000, 'k');
  const auto file = MemoryFile::Make(text);
  ASSERT_TRUE(file.ok()) << file.status();
  for (int i = 0; i < 2; ++i) {
    std::stringstream read;
    read << std::ifstream((*file)->path()).rdbuf();
    EXPECT_EQ(read.str(), text);
  }
  struct stat about = {};
  ASSERT_EQ(stat((*file)->path().c_str(), &about), 0);
  EXPECT_TRUE(S_ISREG(about.st_mode));
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
}

}  // namespace
}  // namespace soapstone::apps
