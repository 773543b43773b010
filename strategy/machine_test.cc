#include "strategy/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kGiga = 1e9;

// Two nodes of two devices: within a node by `pair` links, between nodes by the nodes' NICs, where
// each node has a server.
Machine::Parts TwoByTwo() {
  Machine::Parts parts = {.name = "test"};
  parts.kinds = {{"gpu", 1e12, 1e11, uint64_t{1} << 30, 5000}};
  for (uint32_t d = 0; d < 4; ++d) parts.devices.push_back({absl::StrCat("gpu", d), 0, d / 2});
  const auto link = [&parts](const std::string& name) {
    parts.links.push_back({name, kGiga, 1000, 0});
    return static_cast<uint32_t>(parts.links.size()) - 1;
  };
  std::vector<uint32_t> up, down, out, in;
  for (int d = 0; d < 4; ++d) {
    up.push_back(link(absl::StrCat("up", d)));
    down.push_back(link(absl::StrCat("down", d)));
  }
  for (int n = 0; n < 2; ++n) {
    out.push_back(link(absl::StrCat("out", n)));
    in.push_back(link(absl::StrCat("in", n)));
    parts.servers.push_back({absl::StrCat("server", n), static_cast<uint32_t>(n), kGiga});
  }
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = 0; b < 4; ++b) {
      std::vector<uint32_t> path = {up[a], down[b]};
      if (a / 2 != b / 2) path = {up[a], out[a / 2], in[b / 2], down[b]};
      if (a == b) path.clear();
      parts.device_paths.push_back(path);
    }
  }
  parts.push_paths.resize(8);
  parts.pull_paths.resize(8);
  for (uint32_t d = 0; d < 4; ++d) {
    for (uint32_t s = 0; s < 2; ++s) {
      const bool local = d / 2 == s;
      parts.push_paths[d * 2 + s] =
          local ? std::vector<uint32_t>{up[d]} : std::vector<uint32_t>{up[d], out[d / 2], in[s]};
      parts.pull_paths[s * 4 + d] = local ? std::vector<uint32_t>{down[d]}
                                          : std::vector<uint32_t>{out[s], in[d / 2], down[d]};
    }
  }
  return parts;
}

std::string ErrorOf(Machine::Parts parts) {
  return std::string(Machine::Make(std::move(parts)).status().message());
}

TEST(MachineTest, FindsThePathsThatItWasGiven) {
  const Machine machine = *Machine::Make(TwoByTwo());
  EXPECT_THAT(machine.Path(0, 1), ElementsAre(0, 3));
  EXPECT_THAT(machine.Path(0, 3), ElementsAre(0, 8, 11, 7));
  EXPECT_TRUE(machine.Path(2, 2).empty());
  EXPECT_THAT(machine.PushPath(1, 0), ElementsAre(2));
  EXPECT_THAT(machine.PullPath(1, 0), ElementsAre(10, 9, 1));
  EXPECT_EQ(machine.kind_of(3).name, "gpu");
}

TEST(MachineTest, DevicesOfANodeAreExchangeable) {
  EXPECT_THAT(Machine::Make(TwoByTwo())->symmetry_classes(), ElementsAre(0, 0, 1, 1));
}

TEST(MachineTest, ASlowerLinkSetsADeviceApart) {
  Machine::Parts parts = TwoByTwo();
  parts.links[2].bytes_per_second /= 2;  // gpu1's
  EXPECT_THAT(Machine::Make(parts)->symmetry_classes(), ElementsAre(0, 1, 2, 2));
}

TEST(MachineTest, AnotherKindSetsADeviceApart) {
  Machine::Parts parts = TwoByTwo();
  parts.kinds.push_back({"old", 1e11, 1e11, uint64_t{1} << 30, 5000});
  parts.devices[3].kind = 1;
  EXPECT_THAT(Machine::Make(parts)->symmetry_classes(), ElementsAre(0, 0, 1, 2));
}

// 0 and 1 share a switch, 2 and 3 another: 1 and 2 do not stand in the same relation to 0.
TEST(MachineTest, PairsUnderSwitchesAreExchangeableWithinAPairOnly) {
  Machine::Parts parts = {.name = "pairs"};
  parts.kinds = {{"gpu", 1e12, 1e11, uint64_t{1} << 30, 0}};
  for (uint32_t d = 0; d < 4; ++d) parts.devices.push_back({absl::StrCat("gpu", d), 0, 0});
  for (uint32_t i = 0; i < 12; ++i) parts.links.push_back({absl::StrCat("l", i), kGiga, 0, 0});
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = 0; b < 4; ++b) {
      std::vector<uint32_t> path = {a, 4 + b};
      if (a / 2 != b / 2) path = {a, 8 + a / 2, 10 + b / 2, 4 + b};
      if (a == b) path.clear();
      parts.device_paths.push_back(path);
    }
  }
  EXPECT_THAT(Machine::Make(parts)->symmetry_classes(), ElementsAre(0, 0, 1, 1));
}

// A link of the pair (0, 2) alone that (1, 3)'s messages pass too: exchanging 0 and 1 would move
// it.
TEST(MachineTest, ALinkThatOthersUseTooIsNotMoved) {
  Machine::Parts parts = {.name = "mesh"};
  parts.kinds = {{"gpu", 1e12, 1e11, uint64_t{1} << 30, 0}};
  for (uint32_t d = 0; d < 4; ++d) parts.devices.push_back({absl::StrCat("gpu", d), 0, 0});
  for (uint32_t i = 0; i < 16; ++i) parts.links.push_back({absl::StrCat("l", i), kGiga, 0, 0});
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = 0; b < 4; ++b) {
      parts.device_paths.push_back(a == b ? std::vector<uint32_t>{}
                                          : std::vector<uint32_t>{a * 4 + b});
    }
  }
  EXPECT_THAT(Machine::Make(parts)->symmetry_classes(), ElementsAre(0, 0, 0, 0));
  parts.device_paths[2 * 4 + 3] = {0 * 4 + 1};
  EXPECT_THAT(Machine::Make(parts)->symmetry_classes(), ElementsAre(0, 1, 2, 3));
}

TEST(MachineTest, NamesWhatIsWrong) {
  Machine::Parts parts = TwoByTwo();
  parts.devices.clear();
  EXPECT_EQ(ErrorOf(parts), "test: it has no device");

  parts = TwoByTwo();
  parts.links[0].bytes_per_second = 0;
  EXPECT_EQ(ErrorOf(parts), "up0: bytes_per_second must be above 0, not 0");

  parts = TwoByTwo();
  parts.links[1].latency_ns = -1;
  EXPECT_EQ(ErrorOf(parts), "down0: latency_ns must not be negative, as -1");

  parts = TwoByTwo();
  parts.kinds[0].memory_bytes = 0;
  EXPECT_EQ(ErrorOf(parts), "gpu: it has no memory");

  parts = TwoByTwo();
  parts.devices[1].name = "gpu0";
  EXPECT_EQ(ErrorOf(parts), "two devices are called gpu0");

  parts = TwoByTwo();
  parts.devices[1].kind = 1;
  EXPECT_EQ(ErrorOf(parts), "gpu1: it is of kind 1 of 1");

  parts = TwoByTwo();
  parts.device_paths[3].clear();
  EXPECT_EQ(ErrorOf(parts), "there is no path from gpu0 to gpu3");

  parts = TwoByTwo();
  parts.push_paths[0] = {99};
  EXPECT_THAT(ErrorOf(parts), HasSubstr("the path from gpu0 to server0 has link 99"));

  parts = TwoByTwo();
  parts.pull_paths[0] = {1, 1};
  EXPECT_EQ(ErrorOf(parts), "the path from server0 to gpu0 passes one link twice");

  parts = TwoByTwo();
  parts.device_paths.pop_back();
  EXPECT_THAT(ErrorOf(parts), HasSubstr("a path for each pair"));
}

TEST(FirstDevicesTest, KeepsTheNodesServersAndLinksThatAreStillUsed) {
  const Machine machine = *Machine::Make(TwoByTwo());
  const Machine two = *FirstDevices(machine, 2);
  EXPECT_EQ(two.devices().size(), 2u);
  ASSERT_EQ(two.servers().size(), 1u);
  EXPECT_EQ(two.servers()[0].name, "server0");
  EXPECT_EQ(two.links().size(), 4u);  // no NIC
  ASSERT_EQ(two.Path(1, 0).size(), 2u);
  EXPECT_EQ(two.links()[two.Path(1, 0)[0]].name, "up1");
  EXPECT_EQ(FirstDevices(machine, 3)->servers().size(), 2u);
}

TEST(FirstDevicesTest, AllDevicesAreTheMachine) {
  const Machine machine = *Machine::Make(TwoByTwo());
  const Machine all = *FirstDevices(machine, 4);
  EXPECT_EQ(HashOf(all), HashOf(machine));
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = 0; b < 4; ++b) {
      ASSERT_EQ(all.Path(a, b).size(), machine.Path(a, b).size());
      for (size_t i = 0; i < all.Path(a, b).size(); ++i) {
        EXPECT_EQ(all.links()[all.Path(a, b)[i]], machine.links()[machine.Path(a, b)[i]]);
      }
    }
  }
}

TEST(SlowedDevicesTest, DevicesGetKindsOfTheirOwnAndKeepTheirLinks) {
  const Machine machine = *Machine::Make(TwoByTwo());
  const Machine slowed = *SlowedDevices(machine, std::vector<double>{1, 3, 1, 3});
  for (uint32_t d = 0; d < 4; ++d) {
    const double factor = d % 2 == 0 ? 1 : 3;
    EXPECT_EQ(slowed.kind_of(d).flops_per_second, machine.kind_of(d).flops_per_second / factor);
    EXPECT_EQ(slowed.kind_of(d).bytes_per_second, machine.kind_of(d).bytes_per_second / factor);
    EXPECT_EQ(slowed.kind_of(d).memory_bytes, machine.kind_of(d).memory_bytes);
  }
  EXPECT_EQ(slowed.kinds().size(), machine.kinds().size() + 1);  // one for both
  EXPECT_EQ(slowed.links(), machine.links());
  EXPECT_EQ(HashOf(slowed), HashOf(machine));
}

TEST(SlowedDevicesTest, RefusesWhatIsNoFactor) {
  const Machine machine = *Machine::Make(TwoByTwo());
  EXPECT_THAT(SlowedDevices(machine, std::vector<double>{1, 2}).status().message(),
              HasSubstr("4 devices, and 2 factors"));
  const std::vector<double> none = {0, -1, std::numeric_limits<double>::quiet_NaN(),
                                    std::numeric_limits<double>::infinity()};
  for (const double bad : none) {
    EXPECT_THAT(SlowedDevices(machine, std::vector<double>{1, bad, 1, 1}).status().message(),
                HasSubstr("must be above 0"));
  }
}

TEST(FirstDevicesTest, RefusesMoreThanThereAre) {
  EXPECT_EQ(FirstDevices(*Machine::Make(TwoByTwo()), 5).status().message(),
            "test has 4 devices, not 5");
}

}  // namespace
}  // namespace soapstone::planner
