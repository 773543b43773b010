#include "apps/node/status_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(host.ShowEnd(kSecond, end), 0);
  BodyAt(&host, "/", kSecond);  // the page alone is not looked at yet, and a scrape never
  BodyAt(&host, "/metrics", kSecond);
  EXPECT_EQ(host.ShowEnd(kSecond, end), 0);
  BodyAt(&host, "/statusz.json", kSecond);
  EXPECT_EQ(host.ShowEnd(kSecond + StatusHost::kWatched - 1, end), StatusHost::kEndShown);
  EXPECT_EQ(host.ShowEnd(kSecond + StatusHost::kWatched, end), 0);
  EXPECT_THAT(BodyAt(&host, "/statusz.json"), HasSubstr("\"reason\":\"done\""));
}

}  // namespace
}  // namespace soapstone::apps
