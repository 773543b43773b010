#include "apps/loop/delay_injector.h"

#include <gtest/gtest.h>

#include <utility>

namespace soapstone::apps {
namespace {

using worker::DeviceCommand;
using worker::LoadCommand;
using worker::RunForward;

constexpr uint32_t kLastOp = 1;

DelayInjector Injector(const char* stragglers, double micro_batch_ns = 0) {
  return DelayInjector({.stragglers = *sim::StragglerModel::Parse(stragglers, 1),
                        .last_op = kLastOp,
                        .micro_batch_ns = micro_batch_ns});
}

DeviceCommand Command(worker::DeviceWork what) { return {.run = 1, .what = std::move(what)}; }
DeviceCommand Backward(uint32_t op, uint64_t run = 1, MicroBatchRange part = {0, 4}) {
  return {.run = run, .what = worker::RunBackward{.op = op, .part = part}};
}

TEST(DelayInjector, ChargesThePartWhenItsLastGradientIsThere) {
  DelayInjector injector = Injector("slow:factor=3");
  EXPECT_EQ(injector.RestAfter(Command(LoadCommand{}), 10), 0);
  EXPECT_EQ(injector.RestAfter(Command(RunForward{.part = {0, 4}}), 100), 0);
  EXPECT_EQ(injector.RestAfter(Backward(2), 50), 0);
  EXPECT_EQ(injector.RestAfter(Backward(kLastOp), 40), 2 * 200);
}

TEST(DelayInjector, ASetTimeIsPerMicroBatchAndCountsTheCompute) {
  DelayInjector injector = Injector("slow:factor=2", 1000);
  injector.RestAfter(Command(RunForward{.part = {0, 4}}), 300);
  EXPECT_EQ(injector.RestAfter(Backward(kLastOp), 100), 2 * 4 * 1000 - 400);
  EXPECT_EQ(injector.RestAfter(Backward(kLastOp, 2, {4, 5}), 100), 2 * 1000 - 100);
}

TEST(DelayInjector, StepsOfASectionHaveSharesOfItsSetTime) {
  DelayInjector injector({.stragglers = *sim::StragglerModel::Parse("slow:factor=2", 1),
                          .micro_batch_ns = 900,
                          .step_shares = {1.0 / 3, 0, 2.0 / 3},
                          .total_clocks = 5});
  DeviceCommand command = Command(worker::RunSection{.first = 0, .last = 1});
  EXPECT_EQ(injector.RestAfter(command, 100), 2 * 300 - 100);
  injector.Rested(500);
  command.what = worker::RunSection{.first = 2, .last = 3};
  EXPECT_EQ(injector.RestAfter(command, 50), 2 * 600 - 50);
  command.clock = 5;  // of evaluation
  EXPECT_EQ(injector.RestAfter(command, 50), 0);
}

TEST(DelayInjector, WhatOneRestLackedTheNextOfTheRunMakesGood) {
  DelayInjector injector = Injector("none", 1000);
  const DeviceCommand end = Backward(kLastOp);
  EXPECT_EQ(injector.RestAfter(end, 1000), 3000);
  injector.Rested(3700);
  EXPECT_EQ(injector.RestAfter(end, 1000), 3000 - 700);
}

TEST(DelayInjector, ARunTooSlowForItsTimeIsForgotten) {
  DelayInjector injector = Injector("none", 1000);
  EXPECT_EQ(injector.RestAfter(Backward(kLastOp, 1), 90'000), 0);
  EXPECT_EQ(injector.RestAfter(Backward(kLastOp, 2), 1000), 3000);
}

TEST(DelayInjector, AFactorBelowOneCannotMakeItFaster) {
  DelayInjector injector = Injector("slow:factor=0.5");
  EXPECT_EQ(injector.RestAfter(Backward(kLastOp), 100), 0);
}

}  // namespace
}  // namespace soapstone::apps
