// Every interleaving of small clusters in which each shard, after each message, is made anew of
// what its image says (server/replica/shard_image.h): nothing that matters later is left out, or
// the checkers, the number of states or the second image say so. And mutants that leave something
// out.
#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include "sim/explore.h"
#include "sim/fault_world.h"

namespace soapstone::sim {
namespace {

using server::ImageFault;

constexpr uint64_t kStatesMax = 8'000;

// Policies whose members are workers.
const char* const kImagePolicies[] = {"bsp",
                                      "ssp:s=1",
                                      "async",
                                      "easgd:tau=1,mode=sync",
                                      "easgd:tau=1,mode=async",
                                      "essp:s=1",
                                      "pssp:s=1,p=0.5",
                                      "dssp:lower=0,upper=1",
                                      "softsync:n=1",
                                      "value:v0=1",
                                      "localsgd:h=1",
                                      "dcasgd:lambda=1",
                                      "backup:b=1"};

WorldOptions Small(const std::string& policy, FaultBudget faults) {
  return {.shape = {.workers = 2,
                    .shards = 1,
                    .policy = *consistency::ParsePolicy(policy),
                    .clocks = 2,
                    .micro_batch_count = 4},
          .faults = faults,
          .start_registered = true,
          .instant_device = true};
}

TEST(ImageSpaceTest, AShardMadeOfItsImageIsThatShard) {
  for (const char* policy : kImagePolicies) {
    for (const FaultBudget& faults :
         {FaultBudget{.crashes = 1}, FaultBudget{.leaves = 1, .joins = 1},
          FaultBudget{.duplicates = 1}}) {
      WorldOptions options = Small(policy, faults);
      const ExploreReport without = Explore(*World::Make(options), {.states_max = kStatesMax});
      options.images = ImageFault::kNone;
      const ExploreReport with = Explore(*World::Make(options), {.states_max = kStatesMax});
      EXPECT_FALSE(with.violation.has_value()) << policy << ": " << with.ToString();
      EXPECT_EQ(with.states, without.states) << policy;
      EXPECT_EQ(with.transitions, without.transitions) << policy;
      EXPECT_GT(with.ends, 0u) << policy;
      std::printf("%-24s %8llu states %9llu transitions %s\n", policy,
                  static_cast<unsigned long long>(with.states),
                  static_cast<unsigned long long>(with.transitions),
                  with.complete ? "" : "(up to the budget)");
    }
  }
}

TEST(ImageSpaceTest, AnImageThatLeavesSomethingOutIsFound) {
  struct Case {
    ImageFault fault;
    const char* name;
    const char* policy;
    FaultBudget faults;
  };
  for (const Case& mutant :
       {Case{ImageFault::kSeenForgotten, "pushes that have come", "ssp:s=1", {.duplicates = 1}},
        Case{ImageFault::kReadersForgotten, "who has asked", "essp:s=1", {}},
        Case{ImageFault::kPolicyForgotten, "how far members are", "ssp:s=1", {}},
        Case{ImageFault::kStatsForgotten, "what it has counted", "bsp", {}}}) {
    WorldOptions options = Small(mutant.policy, mutant.faults);
    options.images = ImageFault::kNone;
    ASSERT_FALSE(Explore(*World::Make(options), {.states_max = kStatesMax}).violation.has_value());
    options.images = mutant.fault;
    const ExploreReport report = Explore(*World::Make(options), {.states_max = kStatesMax});
    ASSERT_TRUE(report.violation.has_value()) << mutant.name << " lives: " << report.ToString();
    std::printf("%-24s killed after %llu states: %s\n", mutant.name,
                static_cast<unsigned long long>(report.states), report.violation->c_str());
  }
}

}  // namespace
}  // namespace soapstone::sim
