#include "transport/shm/link_proof.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "security/key_agreement.h"

namespace soapstone::transport {
namespace {

constexpr char kClaimed[] = "soapstone link claim";
constexpr char kAnswered[] = "soapstone link answer";

bool IsRole(uint32_t role) { return role < security::kKeyRoles.size(); }

template <typename Bytes>
std::string_view TextOf(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

LinkProof::LinkProof(std::shared_ptr<const security::ProcessKeys> keys, std::string meeting,
                     const LinkEnd& listener)
    : keys_(std::move(keys)),
      meeting_(std::move(meeting)),
      listener_(listener),
      connector_(keys_->job->role),
      connector_key_(keys_->own.open),
      listens_(false) {}

LinkProof::LinkProof(const std::shared_ptr<const security::ProcessKeys>& keys, std::string meeting)
    : LinkProof(keys, std::move(meeting), {.role = keys->job->role, .key = keys->own.open}) {
  listens_ = true;
}

bool LinkProof::MakeNonce(security::PublicKey* nonce) {
  const auto pair = security::MakeKeyPair();
  if (!pair.has_value()) return false;
  of_nonce_ = pair->secret;
  *nonce = pair->open;
  said_ = true;
  return true;
}

std::optional<ProofNote> LinkProof::First() {
  if (!MakeNonce(&listener_nonce_)) return std::nullopt;
  return ProofNote{.word = ProofNote::Word::kNonce, .nonce = listener_nonce_};
}

std::optional<security::Proof> LinkProof::ProofOf(std::string_view what,
                                                  const security::Secret& own,
                                                  const security::PublicKey& other) const {
  const auto agreed = security::AgreedSecret(own, other);
  if (!agreed.has_value()) return std::nullopt;
  std::string text(what);
  absl::StrAppend(&text, " ", NameOf(connector_), " ", NameOf(listener_.role), " ");
  text += TextOf(listener_nonce_);
  text += TextOf(connector_nonce_);
  text += TextOf(connector_key_);
  text += meeting_;
  return security::ProofOf(*agreed, text);
}

// One proof in the other's text: who lacks either key makes neither.
std::optional<security::Proof> LinkProof::ClaimBy(const security::Secret& of_role,
                                                  const security::PublicKey& with_role,
                                                  const security::Secret& of_process,
                                                  const security::PublicKey& with_process) const {
  const auto process = ProofOf(kClaimed, of_process, with_process);
  if (!process.has_value()) return std::nullopt;
  std::string claim(kClaimed);
  claim += TextOf(*process);
  return ProofOf(claim, of_role, with_role);
}

bool LinkProof::TakeNonce(const ProofNote& note, std::optional<ProofNote>* answer) {
  if (said_ || !MakeNonce(&connector_nonce_)) return false;
  listener_nonce_ = note.nonce;
  const auto proof =
      ClaimBy(keys_->job->secret, listener_nonce_, keys_->own.secret, listener_nonce_);
  if (!proof.has_value()) return false;
  *answer = ProofNote{.word = ProofNote::Word::kClaim,
                      .role = static_cast<uint32_t>(connector_),
                      .nonce = connector_nonce_,
                      .key = connector_key_,
                      .proof = *proof};
  return true;
}

bool LinkProof::TakeClaim(const ProofNote& note, std::optional<ProofNote>* answer) {
  if (!said_ || !IsRole(note.role)) return false;
  connector_ = static_cast<security::KeyRole>(note.role);
  connector_nonce_ = note.nonce;
  connector_key_ = note.key;
  const auto claimed =
      ClaimBy(of_nonce_, keys_->job->PublicOf(connector_), of_nonce_, connector_key_);
  const auto answered = ProofOf(kAnswered, keys_->own.secret, connector_nonce_);
  if (!claimed.has_value() || !answered.has_value() ||
      !security::EqualInConstantTime(*claimed, note.proof)) {
    return false;
  }
  proven_ = true;
  *answer = ProofNote{.word = ProofNote::Word::kAnswer, .proof = *answered};
  return true;
}

bool LinkProof::Take(const ProofNote& note, std::optional<ProofNote>* answer) {
  answer->reset();
  const ProofNote like;
  if (proven_ || note.magic != like.magic || note.version != like.version) return false;
  switch (note.word) {
    case ProofNote::Word::kNonce:
      return !listens_ && TakeNonce(note, answer);
    case ProofNote::Word::kClaim:
      return listens_ && TakeClaim(note, answer);
    case ProofNote::Word::kAnswer: {
      if (listens_ || !said_) return false;
      const auto answered = ProofOf(kAnswered, of_nonce_, listener_.key);
      proven_ = answered.has_value() && security::EqualInConstantTime(*answered, note.proof);
      return proven_;
    }
  }
  return false;
}

}  // namespace soapstone::transport
