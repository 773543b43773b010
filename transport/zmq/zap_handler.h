// ZapHandler: tells libzmq whose key may connect (ZAP, rfc.zeromq.org/spec/27): for each connection
// to a socket of the context that does the handshake of CURVE it is asked, and answers from memory.
// A key of the job's is let in where its role has something to say, with that role as User-Id,
// which libzmq gives with each message that comes by the connection; any other is not. A thread of
// its own answers: the node's loop may be busy, and who connects waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "security/job_keys.h"
#include "transport/zmq/zmq_socket.h"
#include "wire/message.h"

namespace soapstone::transport {

// Of sockets that ask: libzmq needs some name.
inline constexpr char kZapDomain[] = "soapstone";

// The role that a User-Id says; kNone: none.
wire::Role RoleOfUserId(std::string_view user_id);
security::KeyRole KeyRoleOf(wire::Role role);  // REQUIRES: a scheduler, server or worker
wire::Role RoleOf(security::KeyRole role);

// Threading: one thread makes it, before a socket of the context listens, and destroys it, before
// the context goes, but after those sockets: where nobody answers libzmq lets everybody in.
class ZapHandler {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<ZapHandler>> Open(
      void* context, std::shared_ptr<const security::JobKeys> keys);
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  // Connections that came with a key that is none of the job's, or of a role that is not heard
  // here.
  uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }
  uint64_t misplaced() const { return misplaced_.load(std::memory_order_relaxed); }

 private:
  explicit ZapHandler(std::shared_ptr<const security::JobKeys> keys) : keys_(std::move(keys)) {}
  void Run();
  void AnswerOne();

  const std::shared_ptr<const security::JobKeys> keys_;
  void* socket_ = nullptr;  // of the thread, once it runs
  int stop_ = -1;
  std::atomic<uint64_t> strangers_ = 0;
  std::atomic<uint64_t> misplaced_ = 0;
  std::thread thread_;
};

}  // namespace soapstone::transport
