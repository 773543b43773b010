#include "apps/hosts/hosts_file.h"

#include <gtest/gtest.h>

namespace soapstone::apps {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto hosts = ParseHosts(text, "hosts.txt");
  return hosts.ok() ? "" : std::string(hosts.status().message());
}

TEST(HostsFileTest, ALineHasAHostAndWhatItTakes) {
  const auto hosts = ParseHosts(
      "# the cluster\n\nn1\nme@n2 slots=3 role=worker addr=10.0.0.2 cpus=0-3,8 # fast\r\n", "h");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(
      *hosts,
      (std::vector<HostLine>{
          {.host = "n1"},
          {.host = "me@n2", .slots = 3, .role = "worker", .addr = "10.0.0.2", .cpus = "0-3,8"}}));
}

TEST(HostsFileTest, AnErrorNamesFileLineAndWhatIsTaken) {
  for (const char* line :
       {"n1 slots=0", "n1 slots=x", "n1 slots=4097", "n1 role=chief", "n1 gpus=2",
        "n1 addr=", "n1 addr=n1", "n1 addr=::1", "n1 cpus", "n1 cpus=3-1", "n1 cpus=a",
        "-oProxyCommand=x", "slots=2", "n1 slots=1 slots=2", "n0"}) {
    const std::string error = ErrorOf(std::string("n0\n# two\n") + line + "\n");
    EXPECT_EQ(error.rfind("hosts.txt:3: ", 0), 0u) << line << ": " << error;
    EXPECT_NE(error.find("host [slots=N] [role=server|worker] [addr=IP] [cpus=LIST]"),
              std::string::npos)
        << error;
  }
}

TEST(HostsFileTest, WhatIsNoTextIsNotShown) {
  for (const std::string& line :
       {std::string("n1\x1b[1m"), std::string(1001, 'n'), std::string("# \x7f")}) {
    EXPECT_EQ(ErrorOf("n0\n" + line + "\n").rfind("hosts.txt:2: not text, or more", 0), 0u);
  }
}

TEST(HostsFileTest, NoHostIsAnError) {
  EXPECT_EQ(ErrorOf("# none\n").rfind("hosts.txt: no host", 0), 0u);
}

TEST(HostsFileTest, RolesHaveTheirOwnHostsFirst) {
  const std::vector<HostLine> hosts = {{.host = "a", .slots = 2},
                                       {.host = "b", .slots = 1, .role = "worker"},
                                       {.host = "c", .slots = 1, .role = "server"}};
  EXPECT_EQ(*PlaceOnHosts(hosts, 2, 2, "h"), (HostPlaces{.servers = {2, 0}, .workers = {1, 0}}));
}

TEST(HostsFileTest, HowManySlotsAreMissingIsSaid) {
  const std::vector<HostLine> hosts = {{.host = "a", .slots = 2},
                                       {.host = "b", .slots = 5, .role = "server"}};
  const auto places = PlaceOnHosts(hosts, 1, 4, "h");
  ASSERT_FALSE(places.ok());
  EXPECT_EQ(places.status().message(),
            "h: too few slots: 0 of 1 servers and 2 of 4 workers have none");
}

}  // namespace
}  // namespace soapstone::apps
