#include "transport/zmq/zap_handler.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

constexpr size_t kRequestFrames = 7;  // with the credentials of CURVE, a public key
constexpr size_t kRequestId = 1;
constexpr size_t kMechanism = 5;
constexpr size_t kCredentials = 6;

// The frames of one request; the ones beyond those are dropped.
std::vector<std::string> Receive(void* socket) {
  std::vector<std::string> frames;
  for (bool more = true; more;) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&message);
      return {};
    }
    more = zmq_msg_more(&message) != 0;
    if (frames.size() <= kRequestFrames) {
      frames.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    }
    zmq_msg_close(&message);
  }
  return frames;
}

// The scheduler is connected to by all others and connects to nobody; workers to each other, and
// no server to them.
bool MayConnect(security::KeyRole who, security::KeyRole to) {
  if (who == security::KeyRole::kScheduler) return false;
  return to != security::KeyRole::kWorker || who == security::KeyRole::kWorker;
}

}  // namespace

wire::Role RoleOfUserId(std::string_view user_id) {
  for (const auto role : {wire::Role::kScheduler, wire::Role::kServer, wire::Role::kWorker}) {
    if (user_id == security::NameOf(KeyRoleOf(role))) return role;
  }
  return wire::Role::kNone;
}

security::KeyRole KeyRoleOf(wire::Role role) {
  CHECK(role == wire::Role::kScheduler || role == wire::Role::kServer ||
        role == wire::Role::kWorker);
  if (role == wire::Role::kScheduler) return security::KeyRole::kScheduler;
  return role == wire::Role::kServer ? security::KeyRole::kServer : security::KeyRole::kWorker;
}

wire::Role RoleOf(security::KeyRole role) {
  if (role == security::KeyRole::kScheduler) return wire::Role::kScheduler;
  return role == security::KeyRole::kServer ? wire::Role::kServer : wire::Role::kWorker;
}

absl::StatusOr<std::unique_ptr<ZapHandler>> ZapHandler::Open(
    void* context, std::shared_ptr<const security::JobKeys> keys) {
  std::unique_ptr<ZapHandler> handler(new ZapHandler(std::move(keys)));
  handler->socket_ = zmq_socket(context, ZMQ_REP);
  handler->stop_ = eventfd(0, EFD_CLOEXEC);
  const int linger = 0;
  const bool opened = handler->socket_ != nullptr && handler->stop_ >= 0 &&
                      zmq_setsockopt(handler->socket_, ZMQ_LINGER, &linger, sizeof(linger)) == 0 &&
                      zmq_bind(handler->socket_, "inproc://zeromq.zap.01") == 0;
  if (!opened) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot answer who may connect: ", zmq_strerror(errno)));
  }
  handler->thread_ = std::thread([raw = handler.get()] { raw->Run(); });
  return handler;
}

ZapHandler::~ZapHandler() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  if (socket_ != nullptr) zmq_close(socket_);
  if (stop_ >= 0) close(stop_);
}

void ZapHandler::Run() {
  for (;;) {
    std::array<zmq_pollitem_t, 2> items = {
        {{socket_, 0, ZMQ_POLLIN, 0}, {nullptr, stop_, ZMQ_POLLIN, 0}}};
    if (zmq_poll(items.data(), items.size(), -1) < 0 && errno != EINTR) return;
    if ((items[1].revents & ZMQ_POLLIN) != 0) return;
    if ((items[0].revents & ZMQ_POLLIN) != 0) AnswerOne();
  }
}

void ZapHandler::AnswerOne() {
  const std::vector<std::string> request = Receive(socket_);
  if (request.empty()) return;
  std::optional<security::KeyRole> role;
  if (request.size() == kRequestFrames && request[kMechanism] == "CURVE") {
    role = keys_->RoleOf(request[kCredentials]);
  }
  if (!role.has_value()) {
    strangers_.fetch_add(1, std::memory_order_relaxed);
  } else if (!MayConnect(*role, keys_->role)) {
    misplaced_.fetch_add(1, std::memory_order_relaxed);
    role.reset();
  }
  const std::array<std::string_view, 6> answer = {
      "1.0",
      request.size() > kRequestId ? std::string_view(request[kRequestId]) : std::string_view(),
      role.has_value() ? "200" : "400",
      role.has_value() ? "" : "no key of this job, or of no use here",
      role.has_value() ? security::NameOf(*role) : "",
      ""};
  for (size_t i = 0; i < answer.size(); ++i) {
    const int more = i + 1 < answer.size() ? ZMQ_SNDMORE : 0;
    zmq_send(socket_, answer[i].data(), answer[i].size(), ZMQ_DONTWAIT | more);
  }
}

}  // namespace soapstone::transport
