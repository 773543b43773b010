#include "apps/node/wire_limits.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

transport::ZmqOptions LimitsOf(const std::string& policy, uint32_t servers) {
  wire::JobConfig config;
  config.set_model("softmax");
  config.mutable_data()->set_path(std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz");
  config.mutable_training()->set_epochs(1);
  config.mutable_training()->set_batch(32);
  config.set_policy(policy);
  config.mutable_cluster()->set_servers(servers);
  config.mutable_cluster()->set_workers(16);
  const std::shared_ptr<const Job> job = *PrepareJob(std::move(config));
  transport::ZmqOptions options;
  LimitToJob(*job, &options);
  return options;
}

// Two servers at the root and two for each of eight groups: as many connect as to eighteen.
TEST(WireLimits, TheServersOfGroupsAreNodesToo) {
  const transport::ZmqOptions tree = LimitsOf("tree:group=2,s=1", 2);
  const transport::ZmqOptions flat = LimitsOf("bsp", 18);
  EXPECT_EQ(tree.frame_limits.header_bytes_max, flat.frame_limits.header_bytes_max);
  EXPECT_EQ(tree.door.total_bytes_max, flat.door.total_bytes_max);
  EXPECT_EQ(tree.door.ends_max, flat.door.ends_max);
  EXPECT_GT(tree.door.total_bytes_max, LimitsOf("bsp", 2).door.total_bytes_max);
}

}  // namespace
}  // namespace soapstone::apps
