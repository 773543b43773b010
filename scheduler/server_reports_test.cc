#include "scheduler/server_reports.h"

#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

constexpr ServerId kServer{0}, kOtherServer{1};

wire::ShardReads Of(uint32_t shard, std::vector<wire::ReaderState> readers) {
  wire::ShardReads reads = {.shard = ShardId{shard}, .frontier = 4};
  reads.reader_count = static_cast<uint32_t>(readers.size());
  reads.readers = std::move(readers);
  return reads;
}

// Two shards a server, three workers.
TEST(ServerReportsTest, TheLastOfEachServerIsKept) {
  ServerReports reports(3, {.servers = 2, .shards_per_server = 2});
  const wire::ServerProgress early = {{Of(0, {}), Of(1, {})}};
  const wire::ServerProgress late = {{Of(0, {{WorkerId{2}, 6, 5, 3, 2}}), Of(1, {})}};
  EXPECT_TRUE(reports.Record(10, kServer, early));
  EXPECT_TRUE(reports.Record(11, kOtherServer, {{Of(2, {}), Of(3, {})}}));
  EXPECT_TRUE(reports.Record(12, kServer, late));
  ASSERT_EQ(reports.all().size(), 2u);
  EXPECT_EQ(reports.all().at(kServer).progress, late);
  EXPECT_EQ(reports.all().at(kServer).at, 12);
  EXPECT_EQ(reports.all().at(kOtherServer).at, 11);
}

// One that lies changes nothing of what is known.
TEST(ServerReportsTest, WhatCannotBeTheServersOwnIsNotTaken) {
  ServerReports reports(3, {.servers = 2, .shards_per_server = 2});
  const wire::ServerProgress good = {{Of(2, {{WorkerId{0}, 1, 1}})}};
  ASSERT_TRUE(reports.Record(10, kOtherServer, good));
  EXPECT_FALSE(reports.Record(11, kOtherServer, {{Of(1, {})}}));  // the other server's
  EXPECT_FALSE(reports.Record(11, kOtherServer, {{Of(4, {})}}));  // nobody's
  EXPECT_FALSE(reports.Record(11, kOtherServer, {{Of(2, {{WorkerId{3}, 1, 1}})}}));
  wire::ShardReads crowd = Of(2, {});
  crowd.reader_count = 4;
  EXPECT_FALSE(reports.Record(11, kOtherServer, {{crowd}}));
  EXPECT_FALSE(reports.Record(11, kOtherServer, {{Of(2, {}), Of(3, {{WorkerId{9}, 1, 1}})}}));
  EXPECT_EQ(reports.all().at(kOtherServer).progress, good);
  EXPECT_EQ(reports.all().at(kOtherServer).at, 10);
}

}  // namespace
}  // namespace soapstone::scheduler
