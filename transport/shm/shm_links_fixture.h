// ShmLinksTest: two ends of links through shared memory in one process. For tests.
#pragma once

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/shm/shm_links.h"

namespace soapstone::transport {

inline constexpr absl::Duration kLinksPatience = absl::Seconds(20);

inline std::string Endpoint() {
  static int next = 0;
  return absl::StrCat("tcp://test:", getpid(), "-", next++);
}

// Turns both until `done`.
template <typename Done>
bool Turn(ShmLinks* a, ShmLinks* b, const Done& done) {
  const SteadyTime until = SteadyNow() + kLinksPatience;
  while (!done()) {
    if (SteadyNow() > until) return false;
    if (a != nullptr) a->Progress();
    if (b != nullptr) b->Progress();
  }
  return true;
}

class ShmLinksTest : public ::testing::Test {
 protected:
  ShmLinksTest() : endpoint_(Endpoint()) { EXPECT_TRUE(SharedArena::Enable()); }

  // A link from `dialler_` to `listener_`.
  LinkId Open() {
    EXPECT_TRUE(listener_.Listen(endpoint_).ok());
    const auto link = dialler_.Connect(endpoint_);
    EXPECT_TRUE(link.has_value());
    EXPECT_EQ(dialler_.state(*link), ShmLinks::State::kOpening);
    EXPECT_TRUE(Turn(&dialler_, &listener_,
                     [&] { return dialler_.state(*link) == ShmLinks::State::kOpen; }));
    return *link;
  }
  // The next message at `links`: its header. `other` is turned as well.
  std::string Next(ShmLinks* links, ShmLinks* other, LinkId* from) {
    EXPECT_TRUE(Turn(links, other, [&] { return links->Receive(from, &frames_); }));
    return frames_.empty()
               ? ""
               : std::string(reinterpret_cast<const char*>(frames_[0].data()), frames_[0].size());
  }

  const std::string endpoint_;
  ShmLinks listener_, dialler_;
  Buffers frames_;
};

}  // namespace soapstone::transport
