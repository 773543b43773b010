#include "apps/loop/cpu_placement.h"

#include <sched.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> Allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// In a thread of its own, which takes the placement along.
template <typename Function>
void Apart(const Function& function) {
  std::thread(function).join();
}

TEST(CpuPlacementTest, ReadsListsAsTheKernelWritesThem) {
  EXPECT_THAT(*ParseCpuList("3"), ElementsAre(3));
  EXPECT_THAT(*ParseCpuList("8,0-2,2"), ElementsAre(0, 1, 2, 8));
  for (const char* bad : {"", "a", "-1", "3-1", "1,", "0-", "100000", "1-2-3"}) {
    EXPECT_FALSE(ParseCpuList(bad).ok()) << bad;
  }
}

TEST(CpuPlacementTest, ThreadsStartedAfterwardsStayThere) {
  const std::vector<int> before = Allowed();
  const int last = before.back();
  Apart([last] {
    ASSERT_TRUE(Place({.cpus = std::to_string(last)}).ok());
    EXPECT_THAT(Allowed(), ElementsAre(last));
    Apart([last] { EXPECT_THAT(Allowed(), ElementsAre(last)); });
  });
  EXPECT_EQ(Allowed(), before);
}

TEST(CpuPlacementTest, NothingAskedChangesNothing) {
  const std::vector<int> before = Allowed();
  Apart([&] {
    ASSERT_TRUE(Place({}).ok());
    EXPECT_EQ(Allowed(), before);
  });
}

TEST(CpuPlacementTest, ThreadsGetTheAllowedCpusInTurn) {
  const std::vector<int> allowed = Allowed();
  for (size_t i = 0; i < 2 * allowed.size(); ++i) {
    EXPECT_EQ(CpuInTurn(i), allowed[i % allowed.size()]);
  }
  Apart([&] {
    ASSERT_TRUE(Place({.cpus = std::to_string(allowed.back())}).ok());
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(CpuInTurn(i), allowed.back());
  });
}

TEST(CpuPlacementTest, AThreadStaysWhereItIsTold) {
  const std::vector<int> before = Allowed();
  Apart([&] {
    EXPECT_TRUE(StayOn(before.front()));
    EXPECT_THAT(Allowed(), ElementsAre(before.front()));
    EXPECT_FALSE(StayOn(CPU_SETSIZE - 1)) << "no machine of these tests has so many";
  });
  EXPECT_EQ(Allowed(), before);
}

TEST(CpuPlacementTest, SaysWhatThisMachineDoesNotHave) {
  const auto why = [](const CpuPlacement& placement) {
    std::string message;
    Apart([&] { message = std::string(Place(placement).message()); });
    return message;
  };
  EXPECT_THAT(why({.cpus = "1023"}), HasSubstr("--cpus=1023: none of them may be used"));
  EXPECT_THAT(why({.cpus = "x"}), HasSubstr("'x' is no list of CPUs"));
  EXPECT_THAT(why({.numa_node = 1023}), HasSubstr("no such node"));
  EXPECT_THAT(why({.numa_node = 5000}), HasSubstr("not from 0 to 1023"));
}

}  // namespace
}  // namespace soapstone::apps
