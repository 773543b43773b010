// Rows that shards of any layout wrote, read by those of any other.
#include "apps/checkpoint/shard_restorer.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/checkpoint/part_writer.h"
#include "base/random.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/key_shard.h"

namespace soapstone::apps {
namespace {

using testing::HasSubstr;

const CounterRandom kTableDraws(9, RandomUse::kTest);
constexpr uint32_t kTableDims[] = {3, 1};

struct TablesShape {
  uint32_t shards = 1;
  std::string second = "b";  // the other table's name
  uint32_t dim = kTableDims[0];
  std::string optimizer = "adam:lr=0.01";
  uint64_t rows_max = 0;
};

struct TableShards {
  std::shared_ptr<const wire::Layout> layout;
  std::vector<std::unique_ptr<server::TableStore>> stores;

  explicit TableShards(const TablesShape& shape) {
    layout = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({}, {.shard_count = shape.shards,
                                  .tables = {{.name = "a",
                                              .dim = shape.dim,
                                              .init = InitKind::kNormal,
                                              .scale = 0.1,
                                              .rows_max = shape.rows_max},
                                             {.name = shape.second, .dim = kTableDims[1]},
                                             {.name = "empty", .dim = 2}}}));
    for (uint32_t k = 0; k < shape.shards; ++k) {
      stores.push_back(std::make_unique<server::TableStore>(
          server::TensorStoreOptions{.layout = layout,
                                     .shard = ShardId{k},
                                     .optimizer = *compute::ParseOptimizer(shape.optimizer),
                                     .schedule = *compute::ParseSchedule("constant"),
                                     .total_clocks = 100,
                                     .seed = 7}));
    }
  }
  // Some steps of some keys.
  void Train() {
    for (uint64_t step = 0; step < 30; ++step) {
      for (uint32_t t = 0; t < 2; ++t) {
        for (uint32_t k = 0; k < stores.size(); ++k) {
          std::vector<uint64_t> keys;
          for (uint64_t key = 0; key < 300; ++key) {
            const bool mine = wire::ShardOfKey(t, key, layout->shard_count()) == ShardId{k};
            if (mine && kTableDraws.Uniform(step * 1000 + key) < 0.1) keys.push_back(key);
          }
          std::vector<float> rows;
          for (const uint64_t key : keys) {
            for (uint32_t e = 0; e < layout->tables()[t].dim; ++e) {
              rows.push_back(static_cast<float>(kTableDraws.Normal(step * 100'000 + key * 10 + e)));
            }
          }
          const server::Contribution part = {
              .samples = 1,
              .batch_samples = 1,
              .payload = {Buffer::CopyOf<uint64_t>(keys), Buffer::CopyOf<float>(rows)}};
          stores[k]->Apply(t, static_cast<Clock>(step), {part}, 1);
        }
      }
    }
  }
  // All there is of each row, by table and key.
  std::map<std::pair<uint32_t, uint64_t>, std::vector<double>> All() {
    std::map<std::pair<uint32_t, uint64_t>, std::vector<double>> all;
    for (const auto& store : stores) {
      const std::shared_ptr<server::TableCapture> capture = store->Capture();
      for (uint32_t t = 0; t < layout->tables().size(); ++t) {
        for (uint32_t left = capture->table(t).rows(); left > 0; --left) {
          RowBlock row;
          EXPECT_TRUE(capture->Take(t, 1, &row).ok());
          std::vector<double> values(row.values.begin(), row.values.end());
          values.insert(values.end(), row.first.begin(), row.first.end());
          values.insert(values.end(), row.second.begin(), row.second.end());
          for (const uint64_t steps : row.steps) values.push_back(static_cast<double>(steps));
          EXPECT_TRUE(all.try_emplace({t, row.keys[0]}, std::move(values)).second);
        }
      }
    }
    return all;
  }
};

// A checkpoint of what shards wrote.
struct WrittenTables {
  checkpoint::SimulatedDisk disk;
  wire::Checkpoint manifest;

  WrittenTables() {
    EXPECT_TRUE(disk.MakeFolder("d").ok());
    EXPECT_TRUE(disk.MakeFolder("d/000000030").ok());
    manifest.set_clock(30);
  }
  void Add(const TableShards& shards, uint32_t k) {
    const std::string file = checkpoint::PartFile(static_cast<uint32_t>(manifest.part_size()));
    const std::shared_ptr<server::TableCapture> capture = shards.stores[k]->Capture();
    const auto sums = checkpoint::WritePart(&disk, "d/000000030/" + file, 30, {},
                                            TablesOf(*shards.layout, capture.get()));
    ASSERT_TRUE(sums.ok()) << sums.status();
    checkpoint::AddPart(file, *sums, &manifest);
  }
  void AddAll(const TableShards& shards) {
    for (uint32_t k = 0; k < shards.stores.size(); ++k) Add(shards, k);
  }
  // The first error; then none of the rest is restored.
  absl::Status Restore(TableShards* shards) {
    auto image = checkpoint::Image::Open(&disk, "d", manifest);
    if (!image.ok()) return image.status();
    for (uint32_t k = 0; k < shards->stores.size(); ++k) {
      absl::Status restored =
          RestoreTables(*shards->layout, ShardId{k}, &*image, shards->stores[k].get());
      if (!restored.ok()) return restored;
    }
    return absl::OkStatus();
  }
};

TEST(RestoreTablesTest, WhatShardsOfAnyLayoutWroteThoseOfAnyOtherRead) {
  for (const uint32_t before : {1, 2, 5}) {
    TableShards written({.shards = before});
    written.Train();
    const auto expected = written.All();
    EXPECT_GT(expected.size(), 400u);
    WrittenTables files;
    files.AddAll(written);
    for (const uint32_t after : {1, 2, 3, 7}) {
      TableShards read({.shards = after});
      const absl::Status restored = files.Restore(&read);
      ASSERT_TRUE(restored.ok()) << restored;
      EXPECT_EQ(read.All(), expected) << before << " to " << after;
    }
  }
}

TEST(RestoreTablesTest, WhatCannotBePutTogetherIsRefusedWithALine) {
  TableShards written({.shards = 2});
  written.Train();
  const auto said = [&](const TablesShape& here) {
    WrittenTables files;
    files.AddAll(written);
    TableShards read(here);
    return std::string(files.Restore(&read).message());
  };
  EXPECT_EQ(said({.shards = 3}), "");
  EXPECT_THAT(said({.second = "c"}), HasSubstr("it lacks table c"));
  EXPECT_THAT(said({.dim = 4}), HasSubstr("table a: has rows of 3 floats there, and of 4 here"));
  EXPECT_THAT(said({.optimizer = "adagrad:lr=0.1"}),
              HasSubstr("table a: its rows have other state"));
  EXPECT_THAT(said({.rows_max = 10}), HasSubstr("table a: its rows have other state"));
  // A part twice, and one that is missing a table of another.
  WrittenTables twice;
  twice.AddAll(written);
  twice.Add(written, 1);
  TableShards read({.shards = 2});
  EXPECT_THAT(twice.Restore(&read).message(), HasSubstr("is there twice"));
  WrittenTables mixed;
  mixed.Add(written, 0);
  TableShards other({.shards = 2, .second = "c"});
  mixed.Add(other, 1);
  EXPECT_THAT(mixed.Restore(&read).message(), HasSubstr("table b is in 1 of 2 parts"));
  // More rows than one shard may have, where they are bounded.
  TableShards bounded({.shards = 2, .rows_max = 100});
  bounded.Train();
  WrittenTables files;
  files.AddAll(bounded);
  TableShards fewer({.shards = 1, .rows_max = 100}), as_many({.shards = 2, .rows_max = 100});
  EXPECT_THAT(files.Restore(&fewer).message(), HasSubstr("more than 100 rows for a shard"));
  EXPECT_TRUE(files.Restore(&as_many).ok());
}

}  // namespace
}  // namespace soapstone::apps
