#include "transport/tcp/stream_counts.h"

#include <optional>

#include "glog/logging.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp_watch.h"

namespace soapstone::transport {

void StreamCounts::AddConnection(const StreamChannel& channel, uint64_t given_bytes) {
  VLOG(1) << "a connection ends that carried " << channel.window().bytes_per_s() / 1e6
          << " MB/s when it was full, with a window of " << channel.window().bytes() << " bytes";
  if (const std::optional<TcpWatch> watch = TcpWatch::Of(channel.fd())) {
    ++sockets.connections;
    sockets.given_bytes += kStreamHelloBytes + given_bytes;
    watch->AddTo(&sockets);
  }
  if (channel.seal_fault() == SealFault::kRecord) ++faults.records;
  if (channel.seal_fault() == SealFault::kLength) ++faults.lengths;
}

void StreamCounts::AddFraming(const StreamChannel& channel) {
  framing_sent += channel.more_bytes();
  framing_received += channel.more_bytes_in();
}

}  // namespace soapstone::transport
