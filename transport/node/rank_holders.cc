#include "transport/node/rank_holders.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::transport {
namespace {

constexpr char kOfConnections[] = "soapstone connection ";  // and the routing id

}  // namespace

RankHolders::RankHolders(std::shared_ptr<const security::ProcessKeys> keys, size_t connections_max,
                         size_t unranked_max)
    : keys_(std::move(keys)), connections_max_(connections_max), unranked_max_(unranked_max) {
  if (keys_ == nullptr) return;
  const security::PublicKey& scheduler = keys_->job->PublicOf(security::KeyRole::kScheduler);
  Set(wire::Address::Scheduler(), security::BytesOf(scheduler));
}

std::string RankHolders::own_key() const {
  return keys_ != nullptr ? security::BytesOf(keys_->own.open) : "";
}

bool RankHolders::Set(wire::Address node, std::string_view key) {
  const std::optional<security::PublicKey> now = security::PublicKeyOf(key);
  if (keys_ == nullptr || !now.has_value() || former_.contains(*now)) return false;
  if (const wire::Address at = HolderOf(*now); at.role != wire::Role::kNone) return false;
  if (const auto before = KeyOf(node)) {
    holders_.erase(*before);
    if (former_.size() < connections_max_) former_.insert(*before);
  }
  keys_of_ranks_[node] = *now;
  holders_[*now] = node;
  return true;
}

std::optional<security::PublicKey> RankHolders::KeyOf(wire::Address node) const {
  const auto found = keys_of_ranks_.find(node);
  if (found == keys_of_ranks_.end()) return std::nullopt;
  return found->second;
}

wire::Address RankHolders::HolderOf(const security::PublicKey& key) const {
  const auto found = holders_.find(key);
  return found == holders_.end() ? wire::Address{} : found->second;
}

bool RankHolders::IsAwaited(const security::PublicKey& key) const {
  return keys_->job->role != security::KeyRole::kScheduler && !holders_.contains(key) &&
         !former_.contains(key);
}

absl::Status RankHolders::Introduce(const std::string& routing_id,
                                    const security::PublicKey& listener, Handshake* note) const {
  const auto proof = keys_->ProofTo(listener, absl::StrCat(kOfConnections, routing_id));
  if (!proof.has_value()) return absl::InvalidArgumentError("the key to connect by is none");
  note->word = Handshake::Word::kProcess;
  note->key = keys_->own.open;
  note->token = *proof;
  return absl::OkStatus();
}

bool RankHolders::Prove(const std::string& routing_id, const security::PublicKey& key,
                        const security::Proof& proof) {
  if (keys_ == nullptr) return false;
  // The same as the other side makes: the agreed secret is of both.
  const auto expected = keys_->ProofTo(key, absl::StrCat(kOfConnections, routing_id));
  if (!expected.has_value() || !security::EqualInConstantTime(*expected, proof)) return false;
  const auto known = connections_.find(routing_id);
  if (known != connections_.end()) return known->second == key;
  if (connections_.size() >= connections_max_) return false;
  connections_.emplace(routing_id, key);
  if (holders_.contains(key)) return true;
  unranked_.push_back(routing_id);
  ForgetUnranked();
  return true;
}

void RankHolders::ForgetUnranked() {
  while (unranked_.size() > unranked_max_) {
    const auto oldest = connections_.find(unranked_.front());
    unranked_.pop_front();
    if (oldest != connections_.end() && !holders_.contains(oldest->second)) {
      connections_.erase(oldest);
    }
  }
}

void RankHolders::Bind(const std::string& routing_id, const security::PublicKey& key) {
  if (keys_ != nullptr) connections_[routing_id] = key;
}

const security::PublicKey* RankHolders::KeyAt(const std::string& routing_id) const {
  const auto found = connections_.find(routing_id);
  return found == connections_.end() ? nullptr : &found->second;
}

}  // namespace soapstone::transport
