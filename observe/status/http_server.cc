#include "observe/status/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"

namespace soapstone::status {
namespace {

constexpr unsigned kConnectionsMax = 64;
constexpr unsigned kPerAddressMax = 16;
constexpr size_t kConnectionBytes = 32 * 1024;
constexpr unsigned kIdleSeconds = 10;
// Where places are few, others want them.
constexpr absl::Duration kCrowdedPatience = absl::Seconds(2);
constexpr absl::Duration kLookEvery = absl::Milliseconds(500);

absl::StatusOr<sockaddr_in> AddressOf(const std::string& text) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http=", text, ": ADDRESS:PORT is needed, such as 127.0.0.1:9400 or *:9400"));
  };
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon == text.npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 65535) {
    return wrong();
  }
  std::string host = text.substr(0, colon);
  if (host == "*") host = "0.0.0.0";
  if (host == "localhost") host = "127.0.0.1";
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return wrong();
  return address;
}

// A socket that listens there. Ours, so that its error and its port are known.
absl::StatusOr<int> Listen(const std::string& text, sockaddr_in address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool listens = fd >= 0 &&
                       bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                       listen(fd, kConnectionsMax) == 0;
  if (listens) return fd;
  const int error = errno;
  if (fd >= 0) close(fd);
  return absl::InvalidArgumentError(
      absl::StrCat("--http=", text, ": cannot listen there: ", std::strerror(error)));
}

MHD_Result Answer(MHD_Connection* connection, const HttpPage& page) {
  MHD_Response* const response = MHD_create_response_from_buffer(
      page.body.size(), const_cast<char*>(page.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  const std::pair<const char*, const char*> headers[] = {
      {"Content-Type", page.type.c_str()},
      {"Content-Security-Policy", "default-src 'self'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Cache-Control", "no-store"},
      {"Allow", page.code == 405 ? "GET, HEAD" : nullptr}};
  for (const auto& [name, value] : headers) {
    if (value != nullptr) MHD_add_response_header(response, name, value);
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(page.code), response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

// The connections there are, and since when each owes us a whole request, or us to it an answer.
class HttpServer::Connections {
 public:
  explicit Connections(absl::Duration patience)
      : patience_(patience), watch_([this] { EndSlowOnes(); }) {}
  ~Connections() {
    MutexLock lock(&mutex_);
    stop_ = true;
    stopped_.Notify();
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void Began(MHD_Connection* connection) {
    const auto* facts = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (facts == nullptr) return;
    MutexLock lock(&mutex_);
    open_[connection] = {facts->connect_fd, SteadyNow()};
  }
  void Answered(MHD_Connection* connection) {
    MutexLock lock(&mutex_);
    if (const auto found = open_.find(connection); found != open_.end()) {
      found->second.since = SteadyNow();
    }
  }
  // Before its descriptor is closed.
  void Ended(MHD_Connection* connection) {
    MutexLock lock(&mutex_);
    open_.erase(connection);
  }

 private:
  struct Open {
    int fd = -1;
    SteadyTime since;
  };
  void EndSlowOnes() {
    MutexLock lock(&mutex_);
    while (!stop_) {
      stopped_.Wait(&mutex_, SteadyNow() + std::min(patience_ / 10, kLookEvery));
      const bool crowded = open_.size() + kPerAddressMax > kConnectionsMax;
      const absl::Duration patience = crowded ? std::min(patience_, kCrowdedPatience) : patience_;
      for (const auto& [connection, one] : open_) {
        if (SteadyNow() - one.since > patience) shutdown(one.fd, SHUT_RDWR);
      }
    }
  }

  const absl::Duration patience_;
  Mutex mutex_;
  Signal stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<MHD_Connection*, Open> open_ ABSL_GUARDED_BY(mutex_);
  std::jthread watch_;  // the last: it uses all of them
};

struct HttpServer::Daemon {
  explicit Daemon(HttpOptions options, Handler handler)
      : options(std::move(options)),
        handler(std::move(handler)),
        open(this->options.request_patience) {}

  const HttpOptions options;
  const Handler handler;
  Connections open;
  MHD_Daemon* mhd = nullptr;

  static void OnConnection(void* self, MHD_Connection* connection, void** /*socket*/,
                           MHD_ConnectionNotificationCode what) {
    Connections& open = static_cast<Daemon*>(self)->open;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) open.Began(connection);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) open.Ended(connection);
  }
  static void OnAnswered(void* self, MHD_Connection* connection, void** /*request*/,
                         MHD_RequestTerminationCode /*how*/) {
    static_cast<Daemon*>(self)->open.Answered(connection);
  }

  HttpPage PageFor(const char* host, const char* path, const char* method) const {
    const bool reads = std::strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
                       std::strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (!reads) return {.code = 405, .body = "only GET and HEAD\n"};
    if (host != nullptr && !IsHostAllowed(host, options.names)) {
      return {.code = 421,
              .body = "called by a name that it does not know as its own (--http_name)\n"};
    }
    std::unique_ptr<HttpPage> page = handler(path);
    if (page == nullptr) return {.code = 404, .body = "no such page\n"};
    return *std::move(page);
  }

  // What libmicrohttpd calls when the headers are there, again for each part of a body, and at its
  // end.
  // NOLINTNEXTLINE(readability-function-size): the library's parameters
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char* /*version*/, const char* /*data*/,
                              size_t* data_size, void** request) {
    static char seen;
    if (*request == nullptr) {
      *request = &seen;
      return MHD_YES;
    }
    if (*data_size > 0) {  // nobody asked for it
      *data_size = 0;
      return MHD_YES;
    }
    const char* const host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return Answer(connection, static_cast<Daemon*>(self)->PageFor(host, path, method));
  }
};

bool IsHostAllowed(const std::string& host, const std::vector<std::string>& names) {
  std::string bare = absl::AsciiStrToLower(host);
  const size_t port = bare.find_last_not_of("0123456789");
  if (port != bare.npos && bare[port] == ':') bare.resize(port);
  if (absl::StartsWith(bare, "[") && absl::EndsWith(bare, "]")) {
    in6_addr address{};
    return inet_pton(AF_INET6, bare.substr(1, bare.size() - 2).c_str(), &address) == 1;
  }
  in_addr address{};
  return bare.empty() || bare == "localhost" || inet_pton(AF_INET, bare.c_str(), &address) == 1 ||
         std::ranges::any_of(
             names, [&](const std::string& name) { return bare == absl::AsciiStrToLower(name); });
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpOptions options,
                                                              Handler handler) {
  SOAP_ASSIGN_OR_RETURN(const sockaddr_in wanted, AddressOf(options.address));
  SOAP_ASSIGN_OR_RETURN(const int fd, Listen(options.address, wanted));
  sockaddr_in bound{};
  socklen_t size = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  sigset_t all;  // signals are for who watches them, on another thread
  sigset_t were;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &were);
  auto daemon = std::make_unique<Daemon>(std::move(options), std::move(handler));
  daemon->mhd = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, nullptr, nullptr, &Daemon::OnRequest,
      daemon.get(), MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, kConnectionsMax,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, kPerAddressMax, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      kConnectionBytes, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, MHD_OPTION_NOTIFY_CONNECTION,
      &Daemon::OnConnection, daemon.get(), MHD_OPTION_NOTIFY_COMPLETED, &Daemon::OnAnswered,
      daemon.get(), MHD_OPTION_END);
  pthread_sigmask(SIG_SETMASK, &were, nullptr);
  if (daemon->mhd == nullptr) {
    close(fd);
    return absl::InternalError("libmicrohttpd does not start");
  }
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(daemon)));
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &bound.sin_addr, text, sizeof(text));
  server->address_ = absl::StrCat(text, ":", ntohs(bound.sin_port));
  return server;
}

HttpServer::HttpServer(std::unique_ptr<Daemon> daemon) : daemon_(std::move(daemon)) {}

HttpServer::~HttpServer() { MHD_stop_daemon(daemon_->mhd); }

}  // namespace soapstone::status
