#include "checkpoint/part.h"

#include <memory>
#include <numeric>

#include "checkpoint/folder.h"
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
            .box = WholeBox({300'000}),
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
    const absl::Status filled =
        image->Fill("fc1.weight", WholeBox({300'000}), static_cast<uint64_t>(begin),
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
  EXPECT_THAT(image->Fill("fc1.weight", WholeBox({300'000}), 99'995, target).message(),
              HasSubstr("lacks fc1.weight[100000,100005)"));
  EXPECT_THAT(image->Fill("fc2.weight", WholeBox({10}), 0, target).message(),
              HasSubstr("lacks fc2.weight[0,10)"));
  EXPECT_THAT(image->CheckAllThere().message(), HasSubstr("fc1.weight has 150000 of 300000"));
  EXPECT_TRUE(Image::Open(&written.disk, "d", Written().manifest)->CheckAllThere().ok());
}

// A parameter of 6 x 8 x 3 that two strategies cut, each in its own way.
class BoxesTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 6, kColumns = 8, kDepth = 3;
  using Cuts = std::vector<int64_t>;

  static std::vector<Box> Cut(const Cuts& rows, const Cuts& columns, const Cuts& depths) {
    std::vector<Box> boxes;
    for (size_t r = 0; r + 1 < rows.size(); ++r) {
      for (size_t c = 0; c + 1 < columns.size(); ++c) {
        for (size_t d = 0; d + 1 < depths.size(); ++d) {
          boxes.push_back({.shape = {kRows, kColumns, kDepth},
                           .begin = {rows[r], columns[c], depths[d]},
                           .extent = {rows[r + 1] - rows[r], columns[c + 1] - columns[c],
                                      depths[d + 1] - depths[d]}});
        }
      }
    }
    return boxes;
  }
  // Of all its elements, the number of each in the whole.
  static std::vector<float> Values(const Box& box) {
    std::vector<float> values;
    for (int64_t e = 0; e < static_cast<int64_t>(box.elements()); ++e) {
      const int64_t d = e % box.extent[2], c = e / box.extent[2] % box.extent[1];
      const int64_t r = e / box.extent[2] / box.extent[1];
      values.push_back(static_cast<float>(
          ((box.begin[0] + r) * kColumns + box.begin[1] + c) * kDepth + box.begin[2] + d));
    }
    return values;
  }
  // Each box in two slices, by turns in two parts.
  void Write(const std::vector<Box>& boxes) {
    disk_ = std::make_unique<SimulatedDisk>();
    manifest_ = {};
    manifest_.set_clock(9);
    ASSERT_TRUE(disk_->MakeFolder("d").ok());
    ASSERT_TRUE(disk_->MakeFolder("d/000000009").ok());
    std::vector<std::vector<float>> values;
    for (const Box& box : boxes) values.push_back(Values(box));
    for (size_t part = 0; part < 2; ++part) {
      std::vector<PartSlice> slices;
      for (size_t b = 0; b < boxes.size(); ++b) {
        const size_t half = values[b].size() / 2;
        const auto all = absl::MakeConstSpan(values[b]);
        const auto mine = (b + part) % 2 == 0 ? all.first(half) : all.subspan(half);
        if (mine.empty()) continue;
        slices.push_back({.param = "fc[1]",
                          .box = boxes[b],
                          .begin = (b + part) % 2 == 0 ? 0 : half,
                          .values = mine,
                          .first = mine,
                          .steps = 9});
      }
      const auto sums = WritePart(disk_.get(), "d/000000009/" + PartFile(part), 9, slices);
      ASSERT_TRUE(sums.ok()) << sums.status();
      AddPart(PartFile(part), *sums, &manifest_);
    }
  }
  void ExpectReadAs(const std::vector<Box>& boxes) {
    auto image = Image::Open(disk_.get(), "d", manifest_);
    ASSERT_TRUE(image.ok()) << image.status();
    for (const Box& box : boxes) {
      const std::vector<float> expected = Values(box);
      for (const uint64_t begin : {uint64_t{0}, box.elements() / 3}) {
        std::vector<float> values(expected.size() - begin, -1), first, second;
        int64_t steps = 0;
        const absl::Status filled =
            image->Fill("fc[1]", box, begin, {absl::MakeSpan(values), &first, &second, &steps});
        ASSERT_TRUE(filled.ok()) << filled;
        EXPECT_TRUE(std::equal(values.begin(), values.end(),
                               expected.begin() + static_cast<ptrdiff_t>(begin)));
        EXPECT_EQ(first, values);
        EXPECT_EQ(steps, 9);
      }
    }
  }

  std::unique_ptr<SimulatedDisk> disk_;
  wire::Checkpoint manifest_;
};

TEST_F(BoxesTest, WhatOneStrategyCutIsReadInTheBoxesOfAnother) {
  const std::vector<std::vector<Box>> cuts = {Cut({0, 6}, {0, 8}, {0, 3}),        // whole
                                              Cut({0, 6}, {0, 3, 8}, {0, 3}),     // by columns
                                              Cut({0, 2, 4, 6}, {0, 8}, {0, 3}),  // by rows
                                              Cut({0, 5, 6}, {0, 1, 4, 8}, {0, 2, 3})};
  for (const std::vector<Box>& written : cuts) {
    Write(written);
    for (const std::vector<Box>& read : cuts) ExpectReadAs(read);
  }
}

TEST_F(BoxesTest, TensorsSayWhichBoxTheyAre) {
  Write(Cut({0, 6}, {0, 3, 8}, {0, 3}));
  const std::string& bytes = *disk_->Contents("d/000000009/shard-0.safetensors");
  EXPECT_THAT(bytes, HasSubstr(R"("fc[1].shape":"[6,8,3]")"));
  EXPECT_THAT(bytes, HasSubstr(R"j("fc[1][0:6,0:3,0:3][0,27)":{"dtype":"F32")j"));
  EXPECT_THAT(bytes, HasSubstr(R"j("fc[1][0:6,3:8,0:3][45,90).first")j"));
}

TEST_F(BoxesTest, WhatIsMissingOfABoxIsNamedAndSoIsAnotherShape) {
  Write({Cut({0, 6}, {0, 3, 8}, {0, 3})[1]});
  auto image = Image::Open(disk_.get(), "d", manifest_);
  ASSERT_TRUE(image.ok()) << image.status();
  std::vector<float> values(18), first, second;
  int64_t steps = 0;
  const SliceTarget target = {absl::MakeSpan(values), &first, &second, &steps};
  const Box row = {.shape = {6, 8, 3}, .begin = {0, 0, 0}, .extent = {1, 6, 3}};
  EXPECT_THAT(image->Fill("fc[1]", row, 0, target).message(),
              HasSubstr("lacks fc[1][0:1,0:6,0:3][0,9)"));
  EXPECT_THAT(image->Fill("fc[1]", WholeBox({6, 24}), 0, target).message(),
              HasSubstr("fc[1] is [6,8,3] there, and [6,24] here"));
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

// A header of two elements of w.
std::string Boxed(const std::string& shape, const std::string& name) {
  return absl::StrCat(R"({"__metadata__":{"w.shape":")", shape, R"(",")", name, R"(.steps":"1"},")",
                      name, R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
}

// With sums that fit: what is no header of ours is an error all the same.
TEST(PartTest, AnyHeaderIsAnErrorAndNoCrash) {
  constexpr char kGood[] = "w[0:2,1:3][2,4)";
  const std::vector<std::string> headers = {
      "{}", "[]", "{\"a\":1}", "nothing",
      R"json({"w[0,2)":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})json",
      R"json({"__metadata__":{"w[0,9).steps":"1"},
                "w[0,9)":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}})json",
      // Boxes that are none.
      Boxed("[2,4]", "w[0:2,0:5][0,2)"), Boxed("[2,4]", "w[0:2][0,2)"),
      Boxed("[2,4]", "w[1:1,0:4][0,2)"), Boxed("[2,4]", "w[0:1,0:1][0,2)"),
      Boxed("[2,-4]", "w[0,2)"), Boxed("[4294967296,4294967296]", "w[0,2)"), Boxed("[2,4]", kGood),
      Boxed("2,4", "w[0,2)"), Boxed("[2,4]", "w[0,2)[0,2)")};
  for (const std::string& header : headers) {
    SimulatedDisk disk;
    ASSERT_TRUE(disk.MakeFolder("d").ok());
    const auto sums = WritePart(&disk, "d/p", 1, {});
    ASSERT_TRUE(sums.ok());
    const uint64_t bytes = header.size();
    std::string file(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file += header;
    // Written by itself, for its sums: as one slice-less part's bytes.
    file += "01234567";
    *disk.Contents("d/p") = file;
    const auto reader = PartReader::Open(&disk, "d/p", SumsOfBytes(file.data(), file.size()));
    EXPECT_EQ(reader.ok() && !reader->slices().empty(), header == Boxed("[2,4]", kGood)) << header;
  }
}

}  // namespace
}  // namespace soapstone::checkpoint
