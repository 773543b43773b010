#include "wire/membership/membership_client.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_codes.h"

namespace soapstone::wire {
namespace {

constexpr char kNoAnswer[] =
    ": it is not there, or not reached, or one of us has other keys, or none";

}  // namespace

Address MembershipClient::temporary_address() const {
  return Address::Temporary(options_.role, options_.nonce);
}

void MembershipClient::Start(Nanos now, Outbox* out) {
  started_ = last_heard_ = now;
  SendHello(out);
  SetNextTick(now, out);
}

void MembershipClient::OnMessage(Nanos now, const Message& message, Outbox* /*out*/) {
  if (ended_.has_value() || message.from != Address::Scheduler()) return;
  // A scheduler that was started anew knows nothing of us: it is as good as silent.
  if (rank_.has_value() && message.session != session_) return;
  const auto* notice = std::get_if<Notice>(&message.body);
  if (!rank_.has_value()) {
    const auto* welcome = std::get_if<Welcome>(&message.body);
    if (message.type == MessageType::kWelcome && welcome != nullptr &&
        welcome->nonce == options_.nonce) {
      rank_ = welcome->rank;
      session_ = message.session;
    } else if (message.type == MessageType::kRefuse && notice != nullptr) {
      ended_ = *notice;
      return;
    } else if (message.type == MessageType::kWait && notice != nullptr) {
      waits_ = notice->text;
    }
  }
  // Also before Welcome: the job may end while our Hello is on its way.
  if (message.type == MessageType::kShutdown && notice != nullptr) {
    ended_ = *notice;
    return;
  }
  last_heard_ = now;
  if (rank_.has_value()) epoch_ = std::max(epoch_, message.epoch);
}

void MembershipClient::OnTimer(Nanos now, Body body, Outbox* out) {
  if (ended_.has_value()) return;
  if (lost_link_.has_value() && now >= lost_link_->ends_at) {
    ended_ = Notice{kExitPeerLost, absl::StrCat("scheduler lost: ", lost_link_->why)};
    return;
  }
  // What we slept through (a suspended process) is not the scheduler's silence: its messages of
  // that time still wait in our queue.
  const Nanos overslept = now - tick_due_;
  if (overslept > options_.heartbeat_ns) last_heard_ += overslept;
  if (now >= Deadline()) {
    if (rank_.has_value()) {
      const double silent_s = static_cast<double>(now - last_heard_) / kSecond;
      ended_ =
          Notice{kExitPeerLost, absl::StrFormat("scheduler lost: silent for %.1f s", silent_s)};
    } else if (!waits_.empty()) {
      ended_ = Notice{kExitPeerLost,
                      absl::StrCat("no place for ", (now - started_) / kSecond, " s: ", waits_)};
    } else {
      const std::string at =
          options_.scheduler.empty() ? "" : absl::StrCat(" at ", options_.scheduler);
      ended_ = Notice{kExitPeerLost, absl::StrCat("no answer from the scheduler", at, " for ",
                                                  (now - started_) / kSecond, " s", kNoAnswer)};
    }
    return;
  }
  if (rank_.has_value()) {
    Send(MessageType::kHeartbeat, std::move(body), out);
  } else {
    SendHello(out);
  }
  SetNextTick(now, out);
}

std::string MembershipClient::TakeWaitLine(Nanos now) {
  const bool started = tick_due_ != 0;
  if (!started || rank_.has_value() || now < say_waits_) return "";
  // The answer to the first Hello takes a moment.
  if (waits_.empty() && now - started_ < kSayWaitsEvery) return "";
  say_waits_ = now + kSayWaitsEvery;
  return absl::StrCat("waiting for a place (", (now - started_) / kSecond, " of ",
                      options_.start_timeout_ns / kSecond, " s): ",
                      waits_.empty() ? absl::StrCat("no answer from the scheduler at ",
                                                    options_.scheduler, kNoAnswer)
                                     : waits_);
}

void MembershipClient::OnLinkLost(Nanos now, std::string why, Outbox* out) {
  if (ended_.has_value() || lost_link_.has_value()) return;
  if (!rank_.has_value()) return CallAgain();
  lost_link_ = {now + std::min(options_.timeout_ns, kSecond), std::move(why)};
  Send(MessageType::kHeartbeat, {}, out);
  out->SetTimer(kTick, std::min(tick_due_, lost_link_->ends_at));
}

void MembershipClient::CallAgain() {
  if (rank_.has_value()) return;
  waits_.clear();
  calls_ = true;
}

Nanos MembershipClient::Deadline() const {
  return rank_.has_value() ? last_heard_ + options_.timeout_ns
                           : started_ + options_.start_timeout_ns;
}

void MembershipClient::SendHello(Outbox* out) const {
  Message message;
  message.type = MessageType::kHello;
  message.from = temporary_address();
  message.to = Address::Scheduler();
  message.body = Hello{.role = options_.role,
                       .wanted_rank = options_.wanted_rank,
                       .endpoint = options_.endpoint,
                       .nonce = options_.nonce,
                       .config_digest = options_.config_digest,
                       .arithmetic = options_.arithmetic,
                       .key = options_.key,
                       .host = options_.host};
  out->Send(std::move(message));
}

void MembershipClient::Send(MessageType type, Body body, Outbox* out) const {
  Message message;
  message.type = type;
  message.from = {options_.role, *rank_};
  message.to = Address::Scheduler();
  message.session = session_;
  message.epoch = epoch_;
  message.body = std::move(body);
  out->Send(std::move(message));
}

void MembershipClient::SetNextTick(Nanos now, Outbox* out) {
  tick_due_ = std::min(now + options_.heartbeat_ns, Deadline());
  out->SetTimer(kTick, tick_due_);
}

}  // namespace soapstone::wire
