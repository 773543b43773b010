#include "observe/status/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "observe/status/published.h"

namespace soapstone::status {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0", .names = {"", "Head.example"}},
        [](const std::string& path) -> std::unique_ptr<HttpPage> {
          if (path == "/large") {
            return std::make_unique<HttpPage>(HttpPage{.body = std::string(4'000'000, 'x')});
          }
          if (path != "/page") return nullptr;
          return std::make_unique<HttpPage>(HttpPage{.body = "well\n"});
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int Connect() const { return ConnectTo(server_->address()); }
  static int ConnectTo(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
  }

  // All of the answer to `request`, until the server closes.
  std::string Ask(const std::string& request) const {
    const int fd = Connect();
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char bytes[65536];
    for (ssize_t n = 0; (n = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
      answer.append(bytes, static_cast<size_t>(n));
    }
    close(fd);
    return answer;
  }
  std::string Get(const std::string& path, const std::string& host = "127.0.0.1",
                  const std::string& method = "GET") const {
    return Ask(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", host,
                            "\r\nConnection: close\r\n\r\n"));
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, GivesPagesAndNothingElse) {
  const std::string page = Get("/page");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(page, HasSubstr("\r\n\r\nwell\n"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'self'\r\n"));
  EXPECT_THAT(page, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(Get("/other"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/../../etc/passwd"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(Get("/large").size() > 4'000'000, true);
  const std::string head = Get("/page", "127.0.0.1", "HEAD");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5"));
  EXPECT_EQ(head.find("well"), head.npos);
}

TEST_F(HttpServerTest, ReadsOnly) {
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"}) {
    EXPECT_THAT(Get("/page", "127.0.0.1", method), StartsWith("HTTP/1.1 405")) << method;
  }
  EXPECT_THAT(Ask("POST /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: "
                  "close\r\n\r\nabc"),
              StartsWith("HTTP/1.1 405"));
}

// A site whose name was made to lead here cannot read what is here through a visitor's browser.
TEST_F(HttpServerTest, WhoCallsItByAnotherNameIsSentAway) {
  for (const char* host : {"localhost", "localhost:80", "10.0.0.7:9400", "[::1]:1", "[::1]",
                           "head.example", "HEAD.example:9400"}) {
    EXPECT_THAT(Get("/page", host), StartsWith("HTTP/1.1 200")) << host;
  }
  for (const char* host :
       {"evil.example", "head.example.evil", "127.0.0.1.evil", "[x].evil.example",
        "[::1].evil.example", "[::1]:80.evil", "[::1", "[evil.example]"}) {
    EXPECT_THAT(Get("/page", host), StartsWith("HTTP/1.1 421")) << host;
  }
}

TEST_F(HttpServerTest, RubbishAndEndlessHeadersAreAnsweredOrEnded) {
  Ask("\x16\x03\x01 rubbish\r\n\r\n");
  Ask("GET /page HTTP/1.1\r\nX: " + std::string(100'000, 'a'));
  Ask("GET /" + std::string(60'000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_THAT(Get("/page"), StartsWith("HTTP/1.1 200"));
}

// Those beyond the bound are ended; the rest go on, and so do those who come after they have left.
TEST_F(HttpServerTest, ManyWhoSayNothingDoNotKeepOthersOutForLong) {
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Connect());
  for (const int fd : silent) close(fd);
  std::string page;
  for (int tries = 0; tries < 50 && page.empty(); ++tries) {
    page = Get("/page");
    if (page.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
}

// Within the time of idleness, so that libmicrohttpd waits for more; and who asks in time stays.
TEST_F(HttpServerTest, WhoSendsAByteNowAndThenIsEnded) {
  const auto page = [](const std::string&) { return std::make_unique<HttpPage>(); };
  auto server = HttpServer::Start(
      {.address = "127.0.0.1:0", .request_patience = absl::Milliseconds(800)}, page);
  ASSERT_TRUE(server.ok());
  const int slow = ConnectTo((*server)->address());
  const int steady = ConnectTo((*server)->address());
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) {
    const std::string text = i == 0 ? "GET / HTTP/1.1\r\nX: " : "x";
    ended = send(slow, text.data(), text.size(), MSG_NOSIGNAL) < 0;
    const std::string whole = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_GT(send(steady, whole.data(), whole.size(), MSG_NOSIGNAL), 0) << i;
    char answer[1000];
    ASSERT_GT(recv(steady, answer, sizeof(answer), 0), 0) << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(ended);
  close(slow);
  close(steady);
}

TEST_F(HttpServerTest, AnAddressThatIsNoneIsSaid) {
  const auto nothing = [](const std::string&) { return std::unique_ptr<HttpPage>(); };
  for (const char* address : {"", "9400", "host:9400", "1.2.3.4:", "127.0.0.1:70000", "*:x"}) {
    EXPECT_THAT(std::string(HttpServer::Start({.address = address}, nothing).status().message()),
                HasSubstr("ADDRESS:PORT is needed"));
  }
  EXPECT_THAT(
      std::string(HttpServer::Start({.address = server_->address()}, nothing).status().message()),
      HasSubstr("cannot listen there"));
}

TEST(Published, OthersSeeTheNewestWhole) {
  Published<std::vector<int>> published;
  EXPECT_EQ(published.Get(), nullptr);
  published.Set({1});
  const auto first = published.Get();
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) published.Set(std::vector<int>(100, i));
  });
  for (int i = 0; i < 1000; ++i) {
    const auto seen = published.Get();
    for (const int value : *seen) EXPECT_EQ(value, seen->front());
  }
  writer.join();
  EXPECT_EQ(published.Get()->front(), 999);
  EXPECT_EQ(first->size(), 1u);
}

}  // namespace
}  // namespace soapstone::status
