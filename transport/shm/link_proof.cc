#include "transport/shm/link_proof.h"

#include <sys/random.h>

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

LinkProof::LinkProof(std::shared_ptr<const security::JobKeys> keys, std::string endpoint,
                     security::KeyRole listener, bool listens)
    : keys_(std::move(keys)),
      endpoint_(std::move(endpoint)),
      listener_(listener),
      connector_(keys_->role),
      listens_(listens) {}

std::optional<ProofNote> LinkProof::First() {
  ProofNote note = {.word = ProofNote::Word::kNonce};
  if (getrandom(listener_nonce_.data(), listener_nonce_.size(), 0) !=
      static_cast<ssize_t>(listener_nonce_.size())) {
    return std::nullopt;
  }
  note.nonce = listener_nonce_;
  said_ = true;
  return note;
}

std::optional<security::Proof> LinkProof::ProofOf(const char* what) const {
  const auto agreed =
      security::AgreedSecret(keys_->secret, keys_->PublicOf(listens_ ? connector_ : listener_));
  if (!agreed.has_value()) return std::nullopt;
  std::string text = absl::StrCat(what, " ", NameOf(connector_), " ", NameOf(listener_), " ");
  text += TextOf(listener_nonce_);
  text += TextOf(connector_nonce_);
  text += endpoint_;
  return security::ProofOf(*agreed, text);
}

bool LinkProof::TakeNonce(const ProofNote& note, std::optional<ProofNote>* answer) {
  if (said_) return false;
  listener_nonce_ = note.nonce;
  if (getrandom(connector_nonce_.data(), connector_nonce_.size(), 0) !=
      static_cast<ssize_t>(connector_nonce_.size())) {
    return false;
  }
  said_ = true;
  const auto proof = ProofOf(kClaimed);
  if (!proof.has_value()) return false;
  *answer = ProofNote{.word = ProofNote::Word::kClaim,
                      .role = static_cast<uint32_t>(connector_),
                      .nonce = connector_nonce_,
                      .proof = *proof};
  return true;
}

bool LinkProof::TakeClaim(const ProofNote& note, std::optional<ProofNote>* answer) {
  if (!said_ || !IsRole(note.role)) return false;
  connector_ = static_cast<security::KeyRole>(note.role);
  connector_nonce_ = note.nonce;
  const auto claimed = ProofOf(kClaimed), answered = ProofOf(kAnswered);
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
      const auto answered = ProofOf(kAnswered);
      proven_ = answered.has_value() && security::EqualInConstantTime(*answered, note.proof);
      return proven_;
    }
  }
  return false;
}

}  // namespace soapstone::transport
