#include "apps/loop/device_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "apps/loop/node_loop.h"

namespace soapstone::apps {
namespace {

constexpr Nanos kForever = 3600 * kSecond;

bool PutOne(DeviceThread* device, worker::DeviceCommand command = {}) {
  return device->Put(&command);
}

TEST(DeviceThread, ADestroyedOneDoesNotGoOnResting) {
  std::atomic<bool> resting = false;
  Nanos rested = -1;
  {
    DeviceThread device(
        [&](const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
            const DeviceThread::Rest& rest) {
          resting = true;
          rested = rest(kForever);
        },
        [] {});
    ASSERT_TRUE(PutOne(&device));
    while (!resting) std::this_thread::yield();
  }
  EXPECT_GE(rested, 0);
  EXPECT_LT(rested, kForever);
}

TEST(DeviceThread, OnceHurriedItRestsNoMore) {
  std::atomic<int> done = 0;
  DeviceThread device(
      [&](const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
          const DeviceThread::Rest& rest) {
        rest(kForever);
        ++done;
      },
      [] {});
  ASSERT_TRUE(PutOne(&device));
  device.Hurry();
  ASSERT_TRUE(PutOne(&device));
  while (done < 2) std::this_thread::yield();
}

TEST(DeviceThread, ARestIsAsLongAsAsked) {
  std::atomic<Nanos> rested = -1;
  DeviceThread device([&](const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
                          const DeviceThread::Rest& rest) { rested = rest(2 * kMillisecond); },
                      [] {});
  ASSERT_TRUE(PutOne(&device));
  while (rested < 0) std::this_thread::yield();
  EXPECT_GE(rested, 2 * kMillisecond);
}

// What a device that hangs in a command shares with the test, which it may outlive.
struct Hang {
  std::atomic<bool> released = false;
  std::atomic<bool> ended = false;
  std::atomic<int> wakes = 0;
};

TEST(DeviceThread, AHungCommandIsNamedAndItsThreadLeftBehind) {
  constexpr Nanos kPatience = 5 * kMillisecond;
  auto hang = std::make_shared<Hang>();
  auto device = std::make_unique<DeviceThread>(
      [hang](const worker::DeviceCommand&, std::vector<worker::DeviceEvent>* events,
             const DeviceThread::Rest&) {
        while (!hang->released) std::this_thread::yield();
        events->emplace_back();
        hang->ended = true;
      },
      [hang] { ++hang->wakes; }, kPatience);
  ASSERT_TRUE(PutOne(device.get(), {.what = worker::RunBackward{.op = 7}}));
  const Nanos began = NodeLoop::Now();
  std::optional<worker::Overdue> overdue;
  bool was_slow = false;
  while (!overdue.has_value() || !overdue->hung) {
    ASSERT_LT(NodeLoop::Now() - began, 30 * kSecond) << "a hang that nobody sees";
    overdue = device->Look(NodeLoop::Now());
    was_slow = was_slow || (overdue.has_value() && !overdue->hung);
  }
  EXPECT_TRUE(was_slow);
  EXPECT_EQ(overdue->what, (worker::WorkKind{"backward", 7u}));
  EXPECT_GT(overdue->for_ns, 4 * kPatience);
  DeviceThread::Abandon(std::move(device));  // returns, though the command has not ended
  hang->released = true;
  while (!hang->ended) std::this_thread::yield();
  EXPECT_EQ(hang->wakes, 0);
}

// A step of more commands than it may have waits with who puts them, at once and without a loss.
TEST(DeviceThread, AFullOneTakesTheRestLater) {
  std::atomic<bool> released = false;
  std::atomic<uint32_t> next = 0;
  std::atomic<bool> in_order = true;
  DeviceThread device(
      [&](const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>*,
          const DeviceThread::Rest&) {
        while (!released) std::this_thread::yield();
        if (command.instruction != next++) in_order = false;
      },
      [] {}, 5 * kSecond, /*commands_max=*/4);
  uint32_t put = 0;
  worker::DeviceCommand command = {.micro_batch_count = 7};
  while (device.Put(&command)) command = {.instruction = ++put, .micro_batch_count = 7};
  EXPECT_GE(put, 4u);
  EXPECT_LE(put, 5u);  // one in hand
  EXPECT_EQ(command.micro_batch_count, 7u);
  released = true;
  while (put < 100) {
    if (device.Put(&command)) command = {.instruction = ++put};
  }
  while (next < 100) std::this_thread::yield();
  EXPECT_TRUE(in_order);
}

TEST(DeviceThread, OneThatWorksIsNeverOverdue) {
  std::atomic<int> done = 0;
  DeviceThread device([&](const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
                          const DeviceThread::Rest&) { ++done; },
                      [] {});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(PutOne(&device));
  while (done < 1000) EXPECT_FALSE(device.Look(NodeLoop::Now()).has_value());
}

}  // namespace
}  // namespace soapstone::apps
