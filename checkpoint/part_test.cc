#include "checkpoint/part.h"

#include <numeric>

#include "checkpoint/image.h"
#include "checkpoint/manifest.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<float> Numbers(size_t count, float from) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), from);
  return numbers;
}

// Of a parameter of 300,000 elements, in three parts of two shards, and a small one.
struct Written {
  SimulatedDisk disk;
  std::vector<float> values = Numbers(300'000, 1);
  std::vector<float> first = Numbers(300'000, -0.5f);
  wire::Checkpoint manifest;

  Written() {
    EXPECT_TRUE(disk.MakeFolder("d").ok());
    EXPECT_TRUE(disk.MakeFolder("d/000000400").ok());
    manifest.set_clock(400);
    Write(0, {Slice(0, 100'000), Slice(250'000, 300'000)});
    Write(1, {Slice(100'000, 250'000)});
  }
  PartSlice Slice(uint64_t begin, uint64_t end) const {
    return {.param = "fc1.weight",
            .begin = begin,
            .values = absl::MakeConstSpan(values).subspan(begin, end - begin),
            .first = absl::MakeConstSpan(first).subspan(begin, end - begin),
            .steps = 400};
  }
  void Write(uint32_t shard, const std::vector<PartSlice>& slices) {
    const std::string file = absl::StrCat("shard-", shard, ".safetensors");
    const auto sums = WritePart(&disk, "d/000000400/" + file, 400, slices);
    ASSERT_TRUE(sums.ok()) << sums.status();
    AddPart(file, *sums, &manifest);
  }
};

TEST(PartTest, AnyRangeOfAParameterIsPutTogetherFromThePartsThatHaveIt) {
  Written written;
  auto image = Image::Open(&written.disk, "d", written.manifest);
  ASSERT_TRUE(image.ok()) << image.status();
  for (const auto& [begin, end] : {std::pair(0, 300'000), {90'000, 260'000}, {7, 8}, {5, 5}}) {
    std::vector<float> values(static_cast<size_t>(end - begin));
    std::vector<float> first, second;
    int64_t steps = 0;
    const absl::Status filled = image->Fill("fc1.weight", static_cast<uint64_t>(begin),
                                            {absl::MakeSpan(values), &first, &second, &steps});
    ASSERT_TRUE(filled.ok()) << filled;
    EXPECT_TRUE(std::equal(values.begin(), values.end(), written.values.begin() + begin));
    if (begin == end) continue;
    EXPECT_TRUE(std::equal(first.begin(), first.end(), written.first.begin() + begin));
    EXPECT_EQ(first.size(), values.size());
    EXPECT_TRUE(second.empty());
    EXPECT_EQ(steps, 400);
  }
}

TEST(PartTest, WhatIsMissingIsNamed) {
  Written written;
  written.manifest.mutable_part()->RemoveLast();
  auto image = Image::Open(&written.disk, "d", written.manifest);
  ASSERT_TRUE(image.ok());
  std::vector<float> values(10), first, second;
  int64_t steps = 0;
  const SliceTarget target = {absl::MakeSpan(values), &first, &second, &steps};
  EXPECT_THAT(image->Fill("fc1.weight", 99'995, target).message(),
              HasSubstr("lacks fc1.weight[100000,100005)"));
  EXPECT_THAT(image->Fill("fc2.weight", 0, target).message(), HasSubstr("lacks fc2.weight[0,10)"));
}

// Each byte of the file counts, and its MiB is named with what begins it.
TEST(PartTest, EveryFlippedBitIsFound) {
  Written written;
  const PartSums sums = SumsOf(written.manifest.part(0));
  std::string* bytes = written.disk.Contents("d/000000400/shard-0.safetensors");
  ASSERT_EQ(bytes->size(), sums.bytes);
  ASSERT_GT(sums.blocks.size(), 1u);
  for (size_t at = 0; at < bytes->size(); at += 40'009) {
    (*bytes)[at] ^= static_cast<char>(1 << at % 8);
    auto reader = PartReader::Open(&written.disk, "d/000000400/shard-0.safetensors", sums);
    const std::string said =
        reader.ok() ? reader->Faults().at(0) : std::string(reader.status().message());
    EXPECT_THAT(said, HasSubstr(absl::StrCat("MiB ", at / kBlockBytes, ","))) << at;
    const bool header = at < kBlockBytes;
    EXPECT_THAT(said, HasSubstr(header ? "the header in it" : "from fc1.weight[")) << at;
    (*bytes)[at] ^= static_cast<char>(1 << at % 8);
  }
}

TEST(PartTest, AFileThatIsShorterOrLongerIsRefused) {
  Written written;
  const PartSums sums = SumsOf(written.manifest.part(0));
  std::string* bytes = written.disk.Contents("d/000000400/shard-0.safetensors");
  const std::string whole = *bytes;
  for (const size_t size : {size_t{0}, size_t{7}, whole.size() - 1}) {
    *bytes = whole.substr(0, size);
    EXPECT_FALSE(PartReader::Open(&written.disk, "d/000000400/shard-0.safetensors", sums).ok());
  }
  *bytes = whole + "x";
  EXPECT_FALSE(PartReader::Open(&written.disk, "d/000000400/shard-0.safetensors", sums).ok());
}

// With sums that fit: what is no header of ours is an error all the same.
TEST(PartTest, AnyHeaderIsAnErrorAndNoCrash) {
  for (const std::string header :
       {"{}", "[]", "{\"a\":1}", "nothing",
        R"json({"w[0,2)":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})json",
        R"json({"__metadata__":{"w[0,9).steps":"1"},
                "w[0,9)":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}})json"}) {
    SimulatedDisk disk;
    ASSERT_TRUE(disk.MakeFolder("d").ok());
    const auto sums = WritePart(&disk, "d/p", 1, {});
    ASSERT_TRUE(sums.ok());
    const uint64_t bytes = header.size();
    std::string file(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file += header;
    // Written by itself, for its sums: as one slice-less part's bytes.
    *disk.Contents("d/p") = file;
    const auto reader = PartReader::Open(&disk, "d/p", SumsOfBytes(file.data(), file.size()));
    EXPECT_EQ(reader.ok() && !reader->slices().empty(), false) << header;
  }
}

}  // namespace
}  // namespace soapstone::checkpoint
