#include "strategy/planned_times.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "strategy/strategy_text.h"
#include "wire/config/text_config.h"

namespace soapstone::planner {
namespace {

using testing::HasSubstr;

// A model on one seat, in its canonical order; half i begins at 10 i and takes i + 1.
class PlannedTimesTest : public testing::Test {
 protected:
  PlannedTimesTest()
      : graph_(*MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 8})),
        strategy_(SingleDevice(graph_, 0)),
        order_(CanonicalOrder(graph_, strategy_, 1)),
        times_(1) {
    message_.set_version(2);
    message_.set_devices(1);
    SetOrder(graph_, strategy_, order_, &message_);
    for (size_t i = 0; i < order_[0].size(); ++i) {
      const auto at = static_cast<Nanos>(10 * i);
      times_[0].push_back({.begin = at, .end = at + static_cast<Nanos>(i) + 1});
    }
  }
  std::string WhyNot() const {
    const auto read = PlannedTimesFrom(message_, "f", order_);
    return std::string(read.status().message());
  }

  const OpGraph graph_;
  const Strategy strategy_;
  const Order order_;
  PlannedTimes times_;
  wire::Strategy message_;
};

TEST_F(PlannedTimesTest, AreReadBackAsTheyWere) {
  SetPlannedTimes(times_, &message_);
  const absl::StatusOr<wire::Strategy> again = ParseStrategy(wire::TextOf(message_), "f");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*PlannedTimesFrom(*again, "f", order_), times_);
}

TEST_F(PlannedTimesTest, AFileOfBeforeHasNone) {
  message_.set_version(1);
  const absl::StatusOr<wire::Strategy> old = ParseStrategy(wire::TextOf(message_), "f");
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_TRUE(PlannedTimesFrom(*old, "f", order_)->empty());
  message_.clear_order();
  EXPECT_TRUE(PlannedTimesFrom(message_, "f", order_)->empty());
}

TEST_F(PlannedTimesTest, WhatIsNoTimeOfEachHalfIsRefused) {
  SetPlannedTimes(times_, &message_);
  const wire::Strategy whole = message_;
  message_.mutable_order(0)->mutable_took_ns()->RemoveLast();
  EXPECT_THAT(WhyNot(), HasSubstr("f: order: device 0 has 9 begin_ns and 8 took_ns of 9 halves"));
  message_ = whole;
  message_.mutable_order(0)->clear_begin_ns();
  EXPECT_THAT(WhyNot(), HasSubstr("0 begin_ns and 9 took_ns of 9 halves"));
  message_ = whole;
  message_.mutable_order(0)->set_begin_ns(2, -1);
  EXPECT_THAT(WhyNot(), HasSubstr("half 2 begins at -1 ns and takes 3"));
  message_ = whole;
  message_.mutable_order(0)->set_took_ns(0, INT64_MAX);
  EXPECT_THAT(WhyNot(), HasSubstr("half 0 begins at 0 ns and takes 9223372036854775807"));
}

}  // namespace
}  // namespace soapstone::planner
