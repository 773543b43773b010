// soapstone-urgent-bench: how long a small urgent message waits behind large ones on a stream. The
// sender keeps large messages queued and sends an urgent one now and then; the receiver, on the
// same machine, knows from its header when. Run by bench/scripts/urgent_on_shaped_link.py, which
// puts the two at the ends of a slow link.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "bench/processes.h"
#include "glog/logging.h"
#include "transport/tcp/stream_channel.h"

namespace soapstone::bench {
namespace {

constexpr uint32_t kUrgent = 0, kBulk = 1;
constexpr uint64_t kSender = 1, kReceiver = 2;  // who is who to sessions
constexpr size_t kQueuedMax = 3;
constexpr int kPatienceMs = 1000;

struct Flags {
  std::string host = "127.0.0.1";
  uint16_t port = 7918;
  double seconds = 3;
  double warm_up = 1;
  uint64_t bulk_bytes = uint64_t{1} << 20;
  double every_ms = 10;  // an urgent one
  std::string control;   // of congestion; "": the system's
  bool fixed = false;    // the windows stay as they are at first
};

struct Header {
  uint32_t priority = kBulk;
  uint32_t unused = 0;
  Nanos sent = 0;
};

sockaddr_in AddressOf(const Flags& flags) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(flags.port);
  CHECK_EQ(inet_pton(AF_INET, flags.host.c_str(), &address.sin_addr), 1) << flags.host;
  return address;
}

transport::StreamLimits LimitsOf(const Flags& flags) { return {.adapts = !flags.fixed}; }

double Percentile(std::vector<Nanos>* sorted, double part) {
  const auto last = static_cast<double>(sorted->size() - 1);
  return static_cast<double>((*sorted)[static_cast<size_t>(part * last)]) / kMillisecond;
}

void Report(double seconds, uint64_t bytes, std::vector<Nanos>* delays) {
  CHECK(!delays->empty()) << "no urgent message came";
  std::sort(delays->begin(), delays->end());
  std::printf(
      "{\"mb_per_s\": %.2f, \"urgent\": %zu, \"p50_ms\": %.3f, \"p90_ms\": %.3f, "
      "\"p99_ms\": %.3f, \"max_ms\": %.3f}\n",
      static_cast<double>(bytes) / seconds / 1e6, delays->size(), Percentile(delays, 0.5),
      Percentile(delays, 0.9), Percentile(delays, 0.99), Percentile(delays, 1));
}

// Takes what one sender sends, until it ends.
void ReceiveAll(const Flags& flags) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = AddressOf(flags);
  PCHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  PCHECK(listen(listener, 1) == 0);
  std::printf("listening\n");
  std::fflush(stdout);
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  PCHECK(fd >= 0);
  BufferPool pool;
  transport::StreamChannel channel(kReceiver, LimitsOf(flags), &pool);
  CHECK(channel.Attach(fd, {.self = kSender}));
  const Nanos from = Now() + static_cast<Nanos>(flags.warm_up * kSecond);
  uint64_t bytes = 0;
  std::vector<Nanos> delays;
  while (!channel.broken()) {
    Buffers frames;
    while (channel.Receive(&frames)) {
      Header header;
      CHECK_EQ(frames[0].size(), sizeof(header));
      std::memcpy(&header, frames[0].data(), sizeof(header));
      const Nanos now = Now();
      if (now < from) continue;
      if (header.priority == kUrgent) delays.push_back(now - header.sent);
      for (size_t f = 1; f < frames.size(); ++f) bytes += frames[f].size();
    }
    if (channel.unflushed()) channel.Flush();  // acknowledgements
    if (channel.readable()) continue;
    channel.PrepareToSleep();
    pollfd item = {.fd = channel.fd(), .events = POLLIN, .revents = 0};
    if (poll(&item, 1, kPatienceMs) > 0) channel.SetReadable();
  }
  close(listener);
  Report(static_cast<double>(Now() - from) / kSecond, bytes, &delays);
}

void SendAll(const Flags& flags) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = AddressOf(flags);
  PCHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (!flags.control.empty()) {
    PCHECK(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flags.control.data(),
                      static_cast<socklen_t>(flags.control.size())) == 0)
        << flags.control;
  }
  BufferPool pool;
  transport::StreamChannel channel(kSender, LimitsOf(flags), &pool);
  CHECK(channel.Attach(fd, {.self = kReceiver}));
  const Buffers bulk = {Buffer::CopyOf(std::string(flags.bulk_bytes, 'b'))};
  const Nanos began = Now();
  const Nanos until = began + static_cast<Nanos>((flags.warm_up + flags.seconds) * kSecond);
  const auto every = static_cast<Nanos>(flags.every_ms * kMillisecond);
  Nanos next = began + every;
  for (Nanos now = began; now < until && channel.can_send(); now = Now()) {
    Header header;
    const auto send = [&](const Buffers& payload) {
      CHECK(channel
                .Send({reinterpret_cast<const char*>(&header), sizeof(header)}, payload,
                      header.priority)
                .ok());
    };
    if (now >= next) {
      header = {.priority = kUrgent, .sent = now};
      send({});
      next += every;
    }
    header = {.priority = kBulk, .sent = now};
    Buffers none;
    channel.SetReadable();
    channel.Receive(&none);  // acknowledgements
    while (channel.unsent_messages() < kQueuedMax) send(bulk);
    channel.Flush();
    pollfd item = {.fd = channel.fd(), .events = POLLOUT, .revents = 0};
    const Nanos left = std::max<Nanos>(next - Now(), 0);
    const timespec wait = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
    if (channel.unsent_messages() >= kQueuedMax) ppoll(&item, 1, &wait, nullptr);
  }
  std::printf("{\"window_bytes\": %llu, \"rate_mb_per_s\": %.2f}\n",
              static_cast<unsigned long long>(channel.window().bytes()),
              channel.window().bytes_per_s() / 1e6);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "How long an urgent message waits behind large ones "
      "(bench/scripts/urgent_on_shaped_link.py)");
  CLI::App* receive = app.add_subcommand("receive", "Takes what one sender sends; prints delays");
  CLI::App* send = app.add_subcommand("send", "Sends");
  app.require_subcommand(1);
  for (CLI::App* command : {receive, send}) {
    command->add_option("--host", flags.host, "Of the receiver, IPv4");
    command->add_option("--port", flags.port, "Of the receiver");
    command->add_option("--seconds", flags.seconds, "Measured")->check(CLI::Range(0.1, 600.0));
    command->add_option("--warm_up", flags.warm_up, "Before")->check(CLI::Range(0.0, 60.0));
    command->add_option("--bulk_bytes", flags.bulk_bytes, "Of a large message")
        ->check(CLI::Range(uint64_t{8}, uint64_t{1} << 28));
    command->add_option("--every_ms", flags.every_ms, "An urgent one")
        ->check(CLI::Range(0.1, 1000.0));
    command->add_option("--control", flags.control, "Of congestion, as the kernel names it");
    command->add_flag("--fixed", flags.fixed, "Without windows that adapt");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "soapstone-urgent-bench: " << error.what() << " (--help lists the flags)\n";
    return kExitConfig;
  }
  if (receive->parsed()) {
    ReceiveAll(flags);
  } else {
    SendAll(flags);
  }
  return kExitOk;
}

}  // namespace
}  // namespace soapstone::bench

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11's errors are caught, and others end the program.
int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  return soapstone::bench::Main(argc, argv);
}
