#include "apps/device_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace soapstone::apps {
namespace {

constexpr Nanos kForever = 3600 * kSecond;

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
    ASSERT_TRUE(device.Put({}));
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
  ASSERT_TRUE(device.Put({}));
  device.Hurry();
  ASSERT_TRUE(device.Put({}));
  while (done < 2) std::this_thread::yield();
}

TEST(DeviceThread, ARestIsAsLongAsAsked) {
  std::atomic<Nanos> rested = -1;
  DeviceThread device([&](const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*,
                          const DeviceThread::Rest& rest) { rested = rest(2 * kMillisecond); },
                      [] {});
  ASSERT_TRUE(device.Put({}));
  while (rested < 0) std::this_thread::yield();
  EXPECT_GE(rested, 2 * kMillisecond);
}

}  // namespace
}  // namespace soapstone::apps
