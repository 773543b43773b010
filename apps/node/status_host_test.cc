#include "apps/node/status_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

NodeStatus Of(const char* role) {
  NodeStatus status;
  status.job = {.role = role, .version = "1", .policy = "bsp", .phase = "running", .ready = true};
  return status;
}

std::string BodyAt(StatusHost* host, const std::string& path, Nanos now = kSecond) {
  const auto page = host->PageOf(path, now);
  return page == nullptr ? "none" : page->body;
}

// The page is there before the loop has turned; what it asks for is not.
TEST(StatusHost, OnlyASchedulerHasTheDashboard) {
  StatusHost scheduler({.dashboard = true});
  EXPECT_THAT(BodyAt(&scheduler, "/"), StartsWith("<!doctype html>"));
  EXPECT_EQ(BodyAt(&scheduler, "/statusz.json"), "starting\n");
  scheduler.Turn(kSecond, [] { return Of("scheduler"); });
  EXPECT_THAT(BodyAt(&scheduler, "/"), StartsWith("<!doctype html>"));
  EXPECT_THAT(BodyAt(&scheduler, "/statusz"), StartsWith("scheduler  running"));
  StatusHost server({});
  server.Turn(kSecond, [] { return Of("server"); });
  EXPECT_THAT(BodyAt(&server, "/"), StartsWith("server  running"));
  EXPECT_EQ(BodyAt(&server, "/board.js"), "none");
}

TEST(StatusHost, SaysWhatProtectsItsConnections) {
  StatusHost host({.security = "on: by key 12ab"});
  host.Turn(kSecond, [] { return Of("server"); });
  EXPECT_THAT(BodyAt(&host, "/statusz.json"), HasSubstr("\"security\":\"on: by key 12ab\""));
  host.ShowEnd(2 * kSecond, Of("server"));
  EXPECT_THAT(BodyAt(&host, "/statusz"), HasSubstr("security on: by key 12ab"));
}

// Who looks once a second sees it; where nobody does, nobody is waited for.
TEST(StatusHost, TheEndIsLeftThereForWhoLooks) {
  NodeStatus end = Of("scheduler");
  end.job.ended = {.code = 0, .reason = "done"};
  StatusHost host({.dashboard = true});
  host.Turn(kSecond, [] { return Of("scheduler"); });
  host.ShowEnd(kSecond, end);
  EXPECT_EQ(0, host.EndLeft(kSecond));
  BodyAt(&host, "/", kSecond);  // the page alone is not looked at yet
  BodyAt(&host, "/metrics", kSecond - 1);
  host.ShowEnd(kSecond, end);
  EXPECT_EQ(0, host.EndLeft(kSecond));
  BodyAt(&host, "/statusz.json", kSecond);
  const Nanos late = kSecond + StatusHost::kWatched - 1;
  host.ShowEnd(late, end);
  EXPECT_LT(0, host.EndLeft(late + StatusHost::kEndShown - 1));
  EXPECT_EQ(0, host.EndLeft(late + StatusHost::kEndShown));
  host.ShowEnd(kSecond + StatusHost::kWatched, end);
  EXPECT_EQ(0, host.EndLeft(kSecond + StatusHost::kWatched));
  EXPECT_THAT(BodyAt(&host, "/statusz.json"), HasSubstr("\"reason\":\"done\""));
}

// An alert of it would else have nothing to go by.
TEST(StatusHost, AnEndThatIsToBeMendedIsThereAtTheNextScrape) {
  NodeStatus end = Of("scheduler");
  end.job.ended = {.code = kExitNotFinite, .reason = "diverged"};
  StatusHost host({.dashboard = true});
  host.Turn(kSecond, [] { return Of("scheduler"); });
  host.ShowEnd(100 * kSecond, end);
  EXPECT_EQ(0, host.EndLeft(100 * kSecond));  // nobody scrapes
  BodyAt(&host, "/metrics", 90 * kSecond);
  BodyAt(&host, "/metrics", 95 * kSecond);
  host.ShowEnd(98 * kSecond, end);
  EXPECT_LT(0, host.EndLeft(101 * kSecond - 1));
  EXPECT_EQ(0, host.EndLeft(101 * kSecond));  // it does no more
  EXPECT_THAT(BodyAt(&host, "/metrics", 100 * kSecond), HasSubstr("soapstone_job_end_code 79"));
  EXPECT_EQ(0, host.EndLeft(100 * kSecond));
}

}  // namespace
}  // namespace soapstone::apps
