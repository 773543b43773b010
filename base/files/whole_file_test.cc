#include "base/files/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/files/special_file.h"
#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(WholeFile, ADeviceOrPipeIsWrittenIntoAndStaysOne) {
  const std::string pipe = testing::TempDir() + "/whole_file_pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(WriteWholeFile(pipe, "text").ok());
  char read_back[8] = "";
  EXPECT_EQ(read(reader, read_back, sizeof(read_back)), 4);
  EXPECT_STREQ(read_back, "text");
  close(reader);
  EXPECT_TRUE(IsSpecialFile(pipe));
}

TEST(WholeFile, WhatIsNoFileIsNotRead) {
  const std::string pipe = testing::TempDir() + "/whole_file_unread";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadWholeFile(pipe).status().message(), pipe + ": is no file");  // and nobody waits
  EXPECT_EQ(ReadWholeFile("/dev/zero").status().message(), "/dev/zero: is no file");
  EXPECT_EQ(ReadWholeFile("/").status().message(), "/: is a folder");
  EXPECT_EQ(ReadWholeFile("/nowhere/a").status().message(),
            "/nowhere/a: No such file or directory");
  const std::string path = testing::TempDir() + "/whole_file_read";
  ASSERT_TRUE(WriteWholeFile(path, std::string(300'000, 'x')).ok());
  EXPECT_EQ(ReadWholeFile(path)->size(), 300'000u);
  EXPECT_EQ(ReadWholeFile(path, 300'000)->size(), 300'000u);
  EXPECT_EQ(ReadWholeFile(path, 299'999).status().message(), path + ": more than 299999 bytes");
}

TEST(WholeFile, AFullDeviceIsSaid) {
  EXPECT_EQ(WriteWholeFile("/dev/full", "text").message(),
            "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(IsSpecialFile("/dev/full"));
}

TEST(WholeFile, AFileIsReplaced) {
  const std::string path = testing::TempDir() + "/whole_file";
  for (const char* text : {"a text", "b"}) {
    ASSERT_TRUE(WriteWholeFile(path, text).ok());
    FILE* const file = std::fopen(path.c_str(), "rb");
    ASSERT_NE(file, nullptr);
    char read_back[16] = "";
    const size_t bytes = std::fread(read_back, 1, sizeof(read_back), file);
    std::fclose(file);
    EXPECT_EQ(std::string(read_back, bytes), text);
  }
}

}  // namespace
}  // namespace soapstone
