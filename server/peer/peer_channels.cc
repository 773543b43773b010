#include "server/peer/peer_channels.h"

#include "server/peer/peer_ledger.h"

namespace soapstone::server {

uint64_t PeerChannels::NextNumber(WorkerId to, Epoch admitted) {
  return (admitted << PeerLedger::kProcessShift) + ++sent_[to];
}

std::optional<uint64_t> PeerChannels::Take(WorkerId from, uint64_t number) {
  uint64_t& seen = seen_[from];
  if (number <= seen) return std::nullopt;
  return std::exchange(seen, number);
}

bool PeerChannels::KeepEarly(wire::Message message) {
  if (early_.size() >= early_max_) return false;
  early_.push_back(std::move(message));
  return true;
}

void PeerChannels::AddTo(Fingerprint* f) const {
  for (const auto& [peer, number] : seen_) {
    f->Add(peer);
    f->Add(number);
  }
  for (const auto& [peer, number] : sent_) {
    f->Add(peer);
    f->Add(number);
  }
  for (const wire::Message& message : early_) message.AddTo(f);
}

}  // namespace soapstone::server
