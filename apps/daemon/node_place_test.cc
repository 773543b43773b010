#include "apps/daemon/node_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using wire::Role;

TEST(NodePlace, NumbersGoOverAllRoles) {
  const auto place = [](int64_t n) { return *PlaceOf({n, "--index"}, 2, 3); };
  EXPECT_EQ(place(0).role, Role::kScheduler);
  EXPECT_EQ(place(1).role, Role::kServer);
  EXPECT_EQ(place(1).rank.rank, 0);
  EXPECT_EQ(place(2).rank.rank, 1);
  EXPECT_EQ(place(3).role, Role::kWorker);
  EXPECT_EQ(place(3).rank.rank, 0);
  EXPECT_EQ(place(5).rank.rank, 2);
  EXPECT_EQ(PlaceOf({6, "SLURM_PROCID"}, 2, 3).status().message(),
            "SLURM_PROCID=6: the job has a scheduler, 2 servers and 3 workers: numbers 0 to 5");
}

TEST(NodePlace, RolesOfPsLiteAreUnderstood) {
  EXPECT_EQ(PlaceOfDmlc("scheduler")->role, Role::kScheduler);
  EXPECT_EQ(PlaceOfDmlc("server")->role, Role::kServer);
  EXPECT_EQ(PlaceOfDmlc("worker")->rank.rank, -1);
  EXPECT_THAT(PlaceOfDmlc("chief").status().message(), HasSubstr("DMLC_ROLE=chief"));
}

absl::StatusOr<std::string> Scheduler(std::map<std::string, std::string> environment) {
  return SchedulerOf(
      [&](const char* name) -> const char* {
        const auto it = environment.find(name);
        return it == environment.end() ? nullptr : it->second.c_str();
      },
      [](const std::string& list) -> absl::StatusOr<std::string> { return "first-of-" + list; });
}

TEST(NodePlace, TheSchedulerIsWhereTheLauncherSays) {
  EXPECT_EQ(*Scheduler({{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}), "tcp://n1:29500");
  EXPECT_EQ(*Scheduler({{"MASTER_ADDR", "n1"}, {"MASTER_PORT", ""}}), "tcp://n1:7070");
  EXPECT_EQ(*Scheduler({{"DMLC_PS_ROOT_URI", "10.0.0.1"}, {"DMLC_PS_ROOT_PORT", "9000"}}),
            "tcp://10.0.0.1:9000");
  EXPECT_EQ(*Scheduler({{"SLURM_STEP_NODELIST", "n"}}), "tcp://first-of-n:7070");
  EXPECT_THAT(Scheduler({{"MASTER_ADDR", ""}}).status().message(),
              HasSubstr("SOAPSTONE_SCHEDULER"));
}

TEST(NodePlace, TheSchedulerListensWhereNamesLeadAndAddressesSay) {
  EXPECT_EQ(BindOf("tcp://n1.cluster:7070"), "tcp://*:7070");
  EXPECT_EQ(BindOf("tcp://10.0.0.1:7070"), "tcp://10.0.0.1:7070");
  EXPECT_EQ(BindOf("tcp://localhost:7070"), "tcp://127.0.0.1:7070");
  EXPECT_EQ(BindOf("tcp://*:0"), "tcp://*:0");
  EXPECT_EQ(BindOf("ipc:///tmp/job"), "ipc:///tmp/job");
}

TEST(NodePlace, AListOfHostsIsNoCommand) {
  EXPECT_EQ(*FirstSlurmHost("n1,n2"), "n1");
  EXPECT_FALSE(FirstSlurmHost("n1'; touch /tmp/owned; '").ok());
  EXPECT_FALSE(FirstSlurmHost("").ok());
}

}  // namespace
}  // namespace soapstone::apps
