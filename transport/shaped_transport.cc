#include "transport/shaped_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_clock.h"

namespace soapstone::transport {
namespace {

constexpr uint64_t kHeaderBytes = 100;
constexpr absl::Duration kRetryEvery = absl::Milliseconds(2);  // while the queue inside is full

}  // namespace

SteadyTime ShapedTransport::Link::Admit(SteadyTime now, const wire::Message& message,
                                        double limit_mbps) {
  free = std::max(now, free);
  if (limit_mbps > 0) {
    const auto bits = static_cast<double>(8 * (message.payload_bytes() + kHeaderBytes));
    free += absl::Microseconds(bits / limit_mbps);
  }
  return free;
}

absl::Status ShapedTransport::Send(wire::Address node, const wire::Message& message) {
  const SteadyTime now = SteadyNow();
  Link& link = outward_[node];
  if (link.held.size() >= kHeldMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the link to ", node.ToString(), " is full"));
  }
  const SteadyTime leaves = link.Admit(now, message, limit_mbps_);
  if (link.held.empty() && leaves <= now) return inside_->Send(node, message);
  link.held.push_back({leaves, message});
  return absl::OkStatus();
}

void ShapedTransport::SendDue(SteadyTime now) {
  for (auto& [node, link] : outward_) {
    while (!link.held.empty() && link.held.front().leaves <= now) {
      if (absl::IsResourceExhausted(inside_->Send(node, link.held.front().message))) {
        link.held.front().leaves = now + kRetryEvery;
        break;
      }
      link.held.pop_front();
    }
  }
}

std::optional<wire::Message> ShapedTransport::TakeDue(SteadyTime now) {
  for (auto& [node, link] : inward_) {
    if (link.held.empty() || link.held.front().leaves > now) continue;
    wire::Message message = std::move(link.held.front().message);
    link.held.pop_front();
    --inward_held_;
    return message;
  }
  return std::nullopt;
}

SteadyTime ShapedTransport::NextDue() const {
  SteadyTime next = SteadyTime::InfiniteFuture();
  for (const Links* links : {&outward_, &inward_}) {
    for (const auto& [node, link] : *links) {
      if (!link.held.empty()) next = std::min(next, link.held.front().leaves);
    }
  }
  return next;
}

std::optional<wire::Message> ShapedTransport::Receive(SteadyTime deadline) {
  for (;;) {
    SteadyTime now = SteadyNow();
    SendDue(now);
    if (std::optional<wire::Message> due = TakeDue(now)) return due;
    if (inward_held_ >= kHeldMax) {
      // Nothing more is taken in until the first of them has left.
      const SteadyTime until = std::min(deadline, NextDue());
      absl::SleepFor(std::min(until - now, kRetryEvery));
      if (SteadyNow() >= deadline) return std::nullopt;
      continue;
    }
    std::optional<wire::Message> message = inside_->Receive(std::min(deadline, NextDue()));
    now = SteadyNow();
    if (!message.has_value()) {
      // The deadline, a Wake, or time to send or to give out what is held.
      SendDue(now);
      return TakeDue(now);
    }
    Link& link = inward_[node_of_(message->from)];
    const SteadyTime leaves = link.Admit(now, *message, limit_mbps_);
    if (link.held.empty() && leaves <= now) return message;
    link.held.push_back({leaves, *std::move(message)});
    ++inward_held_;
  }
}

void ShapedTransport::Close(absl::Duration linger) {
  SendDue(SteadyTime::InfiniteFuture());
  inside_->Close(linger);
}

}  // namespace soapstone::transport
