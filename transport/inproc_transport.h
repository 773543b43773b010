// Transport within a process: nodes on threads, connected by name. For tests, and for running a
// whole cluster in one process; behaves as the ZeroMQ transport does.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace soapstone::transport {

struct InprocOptions {
  size_t queue_messages_max = 10'000;  // waiting for one node; beyond, Send is an error
  bool encode = false;                 // through EncodeHeader and Decode, as over a socket
  wire::FrameLimits frame_limits;
};

// The switchboard that the nodes of one network share. Thread-safe. The transports keep what they
// need alive: it may be destroyed before them.
class InprocNetwork {
 public:
  explicit InprocNetwork(const InprocOptions& options = {});

  // A node that listens at `name` ("inproc://NAME"), or nowhere when it is empty.
  // Errors: AlreadyExists (a node listens there), InvalidArgument (another kind of endpoint).
  absl::StatusOr<std::unique_ptr<Transport>> Join(const std::string& name);

 private:
  class Switchboard;
  class Mailbox;
  class Node;
  InprocOptions options_;
  std::shared_ptr<Switchboard> switchboard_;
};

}  // namespace soapstone::transport
