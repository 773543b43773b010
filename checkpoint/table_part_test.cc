#include "checkpoint/table_part.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "checkpoint/image.h"
#include "checkpoint/manifest.h"
#include "checkpoint/part.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::checkpoint {
namespace {

using testing::HasSubstr;

// Rows from key `from` on, descending: files are in no order of keys.
RowBlock RowsFrom(uint64_t from, size_t count, const RowForm& form) {
  RowBlock rows;
  rows.Resize(count, form);
  for (size_t i = 0; i < count; ++i) {
    rows.keys[i] = from + count - i;
    if (form.steps) rows.steps[i] = i % 7;
    if (form.used) rows.used[i] = i % 2;
  }
  float next = static_cast<float>(from);
  for (std::vector<float>* floats : {&rows.values, &rows.first, &rows.second}) {
    for (float& value : *floats) value = next += 0.25f;
  }
  return rows;
}

RowBlock Cut(const RowBlock& all, const RowForm& form, size_t begin, size_t count) {
  RowBlock some;
  some.Resize(count, form);
  const auto copy = [&](const auto& from, auto* to, size_t width) {
    if (!to->empty()) std::copy_n(from.begin() + begin * width, count * width, to->begin());
  };
  copy(all.keys, &some.keys, 1);
  copy(all.steps, &some.steps, 1);
  copy(all.used, &some.used, 1);
  copy(all.values, &some.values, form.dim);
  copy(all.first, &some.first, form.dim);
  copy(all.second, &some.second, form.dim);
  return some;
}

PartTable TableOf(const std::string& name, const RowForm& form, const RowBlock* rows) {
  PartTable table = {.name = name, .form = form, .rows = rows->keys.size(), .hand = {}, .next = {}};
  if (form.used) table.hand = static_cast<uint32_t>(rows->keys.size() / 2);
  table.next = [rows, form, at = size_t{0}](size_t count, RowBlock* block) mutable {
    *block = Cut(*rows, form, at, count);
    at += count;
    return absl::OkStatus();
  };
  return table;
}

// Two shards of a table of large rows, a table of small ones, and an empty one; a tensor of an odd
// number of elements beside them.
class TablePartTest : public testing::Test {
 protected:
  static constexpr RowForm kLarge = {.dim = 1000, .first = true, .second = true, .steps = true};
  static constexpr RowForm kSmall = {.dim = 3, .second = true, .used = true};

  TablePartTest() {
    EXPECT_TRUE(disk_.MakeFolder("d").ok());
    EXPECT_TRUE(disk_.MakeFolder("d/000000400").ok());
    manifest_.set_clock(400);
    for (uint32_t shard = 0; shard < 2; ++shard) {
      large_.push_back(RowsFrom(1'000'000 * shard, 801 + shard, kLarge));
      small_.push_back(RowsFrom(5000 * shard, 1001, kSmall));
    }
    for (uint32_t shard = 0; shard < 2; ++shard) Write(shard, "empty");
  }
  void Write(uint32_t shard, const std::string& third) {
    const std::vector<float> values = {1, 2, 3};
    const RowBlock none;
    const std::vector<PartTable> tables = {TableOf("large", kLarge, &large_[shard]),
                                           TableOf("small", kSmall, &small_[shard]),
                                           TableOf(third, {.dim = 2}, &none)};
    const auto sums = WritePart(
        &disk_, "d/000000400/" + PartFile(shard), 400,
        {{.param = "w", .box = WholeBox({6}), .begin = 3 * shard, .values = values, .steps = 400}},
        tables);
    ASSERT_TRUE(sums.ok()) << sums.status();
    AddPart(PartFile(shard), *sums, &manifest_);
  }
  Image Open() {
    auto image = Image::Open(&disk_, "d", manifest_);
    EXPECT_TRUE(image.ok()) << image.status();
    return *std::move(image);
  }
  nlohmann::json HeaderOf(uint32_t shard) {
    const std::string& bytes = *disk_.Contents("d/000000400/" + PartFile(shard));
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    return nlohmann::json::parse(bytes.substr(sizeof(size), size));
  }

  SimulatedDisk disk_;
  wire::Checkpoint manifest_;
  std::vector<RowBlock> large_, small_;  // by shard
};

TEST_F(TablePartTest, RowsAreReadAsTheyWereWrittenInTheirOrder) {
  Image image = Open();
  const auto tables = image.Tables();
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 3u);
  EXPECT_EQ((*tables)[0].name, "empty");
  EXPECT_EQ((*tables)[0].rows, 0u);
  EXPECT_EQ((*tables)[1].form, kLarge);
  EXPECT_EQ((*tables)[1].rows, 1603u);
  EXPECT_EQ((*tables)[2].form, kSmall);
  EXPECT_EQ((*tables)[2].hands, (std::vector<std::optional<uint32_t>>{500, 500}));
  for (const auto& [name, form, written] :
       {std::tuple("large", kLarge, &large_), {"small", kSmall, &small_}}) {
    std::vector<size_t> at(2);
    const auto all = [](uint64_t) { return true; };
    const absl::Status read = image.ReadRows(
        name, all, true, [&, rows = written, form = form](size_t part, const RowBlock& block) {
          EXPECT_EQ(block, Cut((*rows)[part], form, at[part], block.keys.size()));
          at[part] += block.keys.size();
          return absl::OkStatus();
        });
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(at, (std::vector<size_t>{(*written)[0].keys.size(), (*written)[1].keys.size()}));
  }
}

TEST_F(TablePartTest, SomeRowsAloneAreRead) {
  Image image = Open();
  std::set<uint64_t> keys;
  const auto wanted = [](uint64_t key) { return key % 5 == 0; };
  const absl::Status read =
      image.ReadRows("small", wanted, false, [&](size_t part, const RowBlock& rows) {
        EXPECT_TRUE(rows.Fits({.dim = kSmall.dim}));
        for (size_t i = 0; i < rows.keys.size(); ++i) {
          keys.insert(rows.keys[i]);
          const auto there =
              std::find(small_[part].keys.begin(), small_[part].keys.end(), rows.keys[i]);
          const auto row = static_cast<size_t>(there - small_[part].keys.begin());
          EXPECT_EQ(rows.values[i * 3 + 2], small_[part].values[row * 3 + 2]);
        }
        return absl::OkStatus();
      });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(keys.size(), 400u);
  size_t count = 0;
  ASSERT_TRUE(
      image.ReadKeys("small", [&](absl::Span<const uint64_t> some) { count += some.size(); }).ok());
  EXPECT_EQ(count, 2002u);
}

// So that other programs can view what is in the file as what it is.
TEST_F(TablePartTest, TensorsFollowOneAnotherAndBeginAtWholeWords) {
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const nlohmann::json header = HeaderOf(shard);
    EXPECT_EQ(header.at("__metadata__").at("empty.table"), "[0,2]");
    std::map<uint64_t, uint64_t> places;
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const uint64_t begin = tensor.at("data_offsets").at(0), end = tensor.at("data_offsets").at(1);
      const bool word = tensor.at("dtype") == "U64";
      EXPECT_EQ(begin % (word ? 8 : 4), 0u) << name;
      uint64_t bytes = word ? 8 : 4;
      for (const uint64_t d : tensor.at("shape")) bytes *= d;
      EXPECT_EQ(end - begin, bytes) << name;
      if (begin < end) places[begin] = end;
    }
    uint64_t next = 0;
    for (const auto& [begin, end] : places) {
      EXPECT_EQ(begin, next);
      next = end;
    }
    // A block is of some MiB.
    for (const auto& [begin, end] : places) EXPECT_LE(end - begin, uint64_t{4} << 20);
  }
}

TEST_F(TablePartTest, ATableThatIsMissingOrOfAnotherFormIsNamed) {
  manifest_.mutable_part()->RemoveLast();
  Write(1, "other");
  EXPECT_THAT(Open().Tables().status().message(), HasSubstr("table empty is in 1 of 2 parts"));
  const auto all = [](uint64_t) { return true; };
  const auto take = [](size_t, const RowBlock&) { return absl::OkStatus(); };
  EXPECT_THAT(Open().ReadRows("nowhere", all, true, take).message(),
              HasSubstr("shard-0.safetensors: lacks table nowhere"));
  // Another form.
  manifest_.mutable_part()->RemoveLast();
  RowBlock rows = RowsFrom(0, 10, {.dim = 2});
  small_[1] = RowsFrom(0, 10, {.dim = 2});
  const auto sums = WritePart(&disk_, "d/000000400/" + PartFile(1), 400, {},
                              std::vector<PartTable>{TableOf("small", {.dim = 2}, &rows)});
  ASSERT_TRUE(sums.ok());
  AddPart(PartFile(1), *sums, &manifest_);
  EXPECT_THAT(Open().Tables().status().message(), HasSubstr("small has rows of another form"));
}

// What a shard says of its rows, and what a disk does, end the part.
TEST_F(TablePartTest, ADiskThatIsFullAndRowsThatWereGivenUpAreSaid) {
  const auto write = [&](const PartTable& table) {
    return WritePart(&disk_, "d/p", 400, {}, std::vector<PartTable>{table}).status();
  };
  disk_.SetRoom(1 << 20);
  EXPECT_THAT(write(TableOf("large", kLarge, &large_[0])).ToString(),
              HasSubstr("the disk is full"));
  disk_.SetRoom(64 << 20);
  PartTable given_up = TableOf("large", kLarge, &large_[0]);
  given_up.next = [](size_t, RowBlock*) { return absl::ResourceExhaustedError("given up"); };
  EXPECT_EQ(write(given_up).message(), "given up");
}

TEST_F(TablePartTest, EveryFlippedBitIsFoundAndItsBlockNamed) {
  std::string* bytes = disk_.Contents("d/000000400/" + PartFile(0));
  for (size_t at = 3 << 20; at < bytes->size(); at += 1'234'567) {
    (*bytes)[at] ^= 1;
    const std::vector<std::string> faults = FaultsOf(&disk_, "d", manifest_);
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_THAT(faults[0], HasSubstr("from large["));
    const auto all = [](uint64_t) { return true; };
    const auto take = [](size_t, const RowBlock&) { return absl::OkStatus(); };
    EXPECT_THAT(Open().ReadRows("large", all, true, take).message(), HasSubstr("checksum"));
    (*bytes)[at] ^= 1;
  }
}

// With sums that fit: what is no header of ours is an error all the same, and nothing is made as
// large as it says.
TEST_F(TablePartTest, AnyHeaderIsAnErrorAndNoCrash) {
  const auto header = [](const std::string& table, const std::string& name,
                         const std::string& dtype, const std::string& offsets) {
    return absl::StrCat(R"({"__metadata__":{"t.table":")", table, R"("},)",
                        R"("t[0,2).keys":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},)",
                        R"("t)", name, R"(":{"dtype":")", dtype,
                        R"(","shape":[2,1],"data_offsets":)", offsets, "}}");
  };
  const std::string good = header("[2,1]", "[0,2).rows", "F32", "[16,24]");
  const std::vector<std::string> headers = {
      good,
      header("[3,1]", "[0,2).rows", "F32", "[16,24]"),  // rows are missing
      header("[1,1]", "[0,2).rows", "F32", "[16,24]"),  // too many
      header("[2,2]", "[0,2).rows", "F32", "[16,24]"),  // of another dim
      header("[2,0]", "[0,2).rows", "F32", "[16,24]"),
      header("[2,1]", "[0,2).rows", "U64", "[16,24]"),
      header("[2,1]", "[0,2).rows", "F32", "[16,17]"),
      header("[2,1]", "[0,2).rows", "F32", "[24,16]"),
      header("[2,1]", "[0,2).rows", "F32", "[20,28]"),  // past the end
      header("[2,1]", "[0,2).rows", "F32", "[18446744073709551600,18446744073709551608]"),
      header("[2,1]", "[0,2).rows", "F32", "[16]"),
      header("[2,1]", "[0,2).values", "F32", "[16,24]"),
      header("[2,1]", "[0,1).rows", "F32", "[16,20]"),  // another end
      header("[2,1]", "[1,2).rows", "F32", "[16,20]"),  // another begin
      header("[2,1]", "[2,0).rows", "F32", "[16,24]"),
      header("[2,1]", "[0,2).first", "F32", "[16,24]"),  // no values
      header("[18446744073709551615,1]", "[0,2).rows", "F32", "[16,24]"),
      header("[2,4294967296]", "[0,2).rows", "F32", "[16,24]"),
      header("[4611686018427387904,4]", "[0,4611686018427387904).rows", "F32", "[16,16]"),
      header("2,1", "[0,2).rows", "F32", "[16,24]"),
      R"({"__metadata__":{"t.table":7}})",
      R"({"__metadata__":{"t.table":"[0,1]","t.hand":"1"}})",
      R"({"__metadata__":["t.table"]})",
  };
  for (const std::string& text : headers) {
    const uint64_t bytes = text.size();
    std::string file(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file += text + std::string(24, '\1');
    *disk_.Contents("d/000000400/" + PartFile(0)) = file;
    const auto reader = PartReader::Open(&disk_, "d/000000400/" + PartFile(0),
                                         SumsOfBytes(file.data(), file.size()));
    EXPECT_EQ(reader.ok() && !reader->tables().empty(), text == good) << text;
  }
}

}  // namespace
}  // namespace soapstone::checkpoint
