#include "apps/experiment/simulate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

TEST(EndOfSimulation, IsQuietWhereTheGuaranteeWasKept) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(EndOfSimulation(0, std::nullopt), kExitOk);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(EndOfSimulation, SaysInOneLineWhyItEndsWith70) {
  for (const auto& first :
       {std::optional<std::string>("worker 3\nlag 2"), std::optional<std::string>()}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(EndOfSimulation(422, first), kExitInternal);
    EXPECT_THAT(
        testing::internal::GetCapturedStderr(),
        testing::MatchesRegex("soapstone: the guarantee was broken 422 times; first: [^\n]*\n"));
  }
}

}  // namespace
}  // namespace soapstone::apps
