#include "bench/raw_links.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace soapstone::bench {
namespace {

constexpr uint64_t kRawQueuedBytesMax = uint64_t{64} << 20;
constexpr int kQueueMax = 10'000;

// As many messages as kRawQueuedBytesMax has, for either end.
void BoundQueues(void* socket, uint64_t bytes) {
  const int most = static_cast<int>(
      std::clamp<uint64_t>(kRawQueuedBytesMax / std::max<uint64_t>(bytes, 1), 2, kQueueMax));
  zmq_setsockopt(socket, ZMQ_SNDHWM, &most, sizeof(most));
  zmq_setsockopt(socket, ZMQ_RCVHWM, &most, sizeof(most));
}

std::string Listen(void* socket, RawLink link) {
  const std::string at = link == RawLink::kZmqTcp
                             ? "tcp://127.0.0.1:*"
                             : absl::StrCat("ipc://@soapstone-bench-", getpid());
  CHECK_EQ(zmq_bind(socket, at.c_str()), 0) << at << ": " << zmq_strerror(errno);
  char endpoint[256];
  size_t size = sizeof(endpoint);
  CHECK_EQ(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
  return endpoint;
}

// Answers each message, or, where `messages` is not 0, the last of so many.
void ServeZmq(RawLink link, uint64_t bytes, uint64_t messages,
              const std::function<void(const std::string&)>& ready) {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_ROUTER);
  BoundQueues(socket, bytes);
  ready(Listen(socket, link));
  zmq_msg_t id, payload;
  for (uint64_t got = 1;; ++got) {
    zmq_msg_init(&id);
    zmq_msg_init(&payload);
    CHECK_GE(zmq_msg_recv(&id, socket, 0), 0) << zmq_strerror(errno);
    CHECK_GE(zmq_msg_recv(&payload, socket, 0), 0) << zmq_strerror(errno);
    if (messages != 0 && got < messages) {
      zmq_msg_close(&id);
      zmq_msg_close(&payload);
      continue;
    }
    CHECK_GE(zmq_msg_send(&id, socket, ZMQ_SNDMORE), 0) << zmq_strerror(errno);
    CHECK_GE(zmq_msg_send(&payload, socket, 0), 0) << zmq_strerror(errno);
    got = 0;
  }
}

void* ConnectZmq(const std::string& endpoint, uint64_t bytes) {
  void* socket = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
  BoundQueues(socket, bytes);
  CHECK_EQ(zmq_connect(socket, endpoint.c_str()), 0) << zmq_strerror(errno);
  return socket;
}

// The bytes are shared, not copied: the best that ZeroMQ offers.
void SendZmq(void* socket, std::vector<char>* bytes) {
  zmq_msg_t message;
  zmq_msg_init_data(
      &message, bytes->data(), bytes->size(), [](void*, void*) {}, nullptr);
  CHECK_GE(zmq_msg_send(&message, socket, 0), 0) << zmq_strerror(errno);
}

void ReceiveZmq(void* socket) {
  zmq_msg_t message;
  zmq_msg_init(&message);
  CHECK_GE(zmq_msg_recv(&message, socket, 0), 0) << zmq_strerror(errno);
  zmq_msg_close(&message);
}

// False: the other side has ended.
bool ReadAll(int fd, char* to, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(fd, to, bytes);
    PCHECK(got >= 0) << "read";
    if (got == 0) return false;
    to += got;
    bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

void WriteAll(int fd, const char* from, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t put = write(fd, from, bytes);
    PCHECK(put > 0) << "write";
    from += put;
    bytes -= static_cast<uint64_t>(put);
  }
}

sockaddr_in Loopback(uint16_t port) {
  return {.sin_family = AF_INET,
          .sin_port = htons(port),
          .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
          .sin_zero = {}};
}

void ServeTcp(uint64_t bytes, uint64_t messages,
              const std::function<void(const std::string&)>& ready) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = Loopback(0);
  PCHECK(bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0);
  socklen_t size = sizeof(at);
  PCHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  PCHECK(listen(listener, 1) == 0);
  ready(absl::StrCat(ntohs(at.sin_port)));
  const int fd = accept(listener, nullptr, nullptr);
  PCHECK(fd >= 0);
  std::vector<char> message(bytes);
  for (uint64_t got = 1; ReadAll(fd, message.data(), bytes); ++got) {
    if (got == messages) WriteAll(fd, message.data(), 1);
  }
}

Sample PushTcp(const std::string& port, pid_t server, uint64_t bytes, uint64_t messages) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in at = Loopback(static_cast<uint16_t>(std::stoi(port)));
  PCHECK(connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::vector<char> message(bytes, 1);
  const CpuWatch cpu(server);
  const Nanos began = Now();
  for (uint64_t i = 0; i < messages; ++i) WriteAll(fd, message.data(), bytes);
  char answer = 0;
  CHECK(ReadAll(fd, &answer, 1)) << "the other side has ended";
  return {.seconds = static_cast<double>(Now() - began) / kSecond,
          .cpu_seconds = cpu.Seconds(),
          .messages = messages,
          .bytes = bytes * messages};
}

}  // namespace

Sample RawPush(RawLink link, uint64_t bytes, uint64_t messages) {
  if (link == RawLink::kTcp) {
    return Measure(
        "raw TCP", [&](const auto& ready) { ServeTcp(bytes, messages, ready); },
        [&](const std::string& port, pid_t server) {
          return PushTcp(port, server, bytes, messages);
        });
  }
  return Measure(
      "raw ZeroMQ", [&](const auto& ready) { ServeZmq(link, bytes, messages, ready); },
      [&](const std::string& endpoint, pid_t server) {
        void* socket = ConnectZmq(endpoint, bytes);
        std::vector<char> payload(bytes, 1);
        const CpuWatch cpu(server);
        const Nanos began = Now();
        for (uint64_t i = 0; i < messages; ++i) SendZmq(socket, &payload);
        ReceiveZmq(socket);
        return Sample{.seconds = static_cast<double>(Now() - began) / kSecond,
                      .cpu_seconds = cpu.Seconds(),
                      .messages = messages,
                      .bytes = bytes * messages};
      });
}

Sample RawRoundTrips(RawLink link, uint64_t bytes, uint64_t messages) {
  return Measure(
      "raw ZeroMQ round trips", [&](const auto& ready) { ServeZmq(link, bytes, 0, ready); },
      [&](const std::string& endpoint, pid_t server) {
        void* socket = ConnectZmq(endpoint, bytes);
        std::vector<char> payload(bytes, 1);
        RoundTrips trips(server);
        for (uint64_t i = 0; i < messages; ++i) {
          trips.Begin();
          SendZmq(socket, &payload);
          ReceiveZmq(socket);
          trips.End();
        }
        return trips.Result(bytes);
      });
}

}  // namespace soapstone::bench
