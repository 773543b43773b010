// What must hold in a world of peers, and at its end.
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "sim/peer_world.h"

namespace soapstone::sim {
namespace {

using wire::Message;
using wire::MessageType;

double FirstOf(const Buffer& buffer) {
  double value = 0;
  std::memcpy(&value, buffer.data(), sizeof(value));
  return value;
}

}  // namespace

uint64_t PeerWorld::TimesIn(double value, uint32_t index, Clock clock) const {
  return static_cast<uint64_t>(value) >> (2 * (index * options_.clocks + clock)) & 3;
}

std::vector<std::vector<double>> PeerWorld::Values() const {
  std::vector<std::vector<double>> all;
  for (const Process& p : processes_) {
    if (!p.Counts()) continue;
    const Buffer buffer = p.peer.vectors()->Values();
    std::vector<double> values(Elements());
    std::memcpy(values.data(), buffer.data(), buffer.size());
    all.push_back(std::move(values));
  }
  return all;
}

void PeerWorld::Check() {
  if (violation_.has_value()) return;
  if (ExchangesBy<consistency::CollectiveTraits>()) {
    std::map<Clock, std::vector<double>> by_version;
    const std::vector<std::vector<double>> values = Values();
    size_t at = 0;
    for (const Process& p : processes_) {
      if (!p.Counts()) continue;
      const std::vector<double>& mine = values[at++];
      if (p.peer.policy() == nullptr || !p.peer.policy()->standing().has_values) continue;
      const Clock version = p.peer.policy()->standing().version;
      const auto [it, fresh] = by_version.emplace(version, mine);
      const bool equal =
          std::memcmp(it->second.data(), mine.data(), mine.size() * sizeof(double)) == 0;
      if (!fresh && !equal) Fail(absl::StrCat("D1: two members differ after round ", version));
      if (std::isnan(mine.back())) Fail("D2: a sum does not have the samples it is said to have");
    }
    if (!by_version.empty() && by_version.rbegin()->first > by_version.begin()->first + 1) {
      Fail("D4: members are more than a round apart");
    }
  } else if (!ExchangesBy<consistency::MixingTraits>()) {
    CheckSum();
  }
  if (violation_.has_value()) return;
  if (Finished()) return CheckEnd();
  if (connections_.channels().empty() && Enabled().empty()) {
    Fail("S5: deadlock: nothing can happen, and not all have handed in");
  }
}

// D3 for exchanges without rounds.
void PeerWorld::CheckSum() {
  if (members_changed_ || duplicated_ || epoch_ > 1) return;
  double due = 0, there = 0, weight = 0;
  uint32_t seated = 0;
  const std::vector<std::vector<double>> values = Values();
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    const Process& p = processes_[i];
    if (p.peer.policy() == nullptr || p.peer.held_messages() > 0) return;  // not in sight
    ++seated;
    due += p.applied;
    if (p.peer.policy()->seat().gradient_waits) due -= DigitOf(i, p.computed.back());
    there += values[i][0] * p.peer.policy()->weight();
    weight += p.peer.policy()->weight();
  }
  connections_.ForEach([&](const Message& message) {
    if (message.type != MessageType::kParcel) return;
    const auto& parcel = std::get<wire::Parcel>(message.body);
    weight += parcel.weight;
    if (ExchangesBy<consistency::PushSumTraits>()) {
      there += parcel.weight * FirstOf(message.payload[0]);
    }
    if (ExchangesBy<consistency::PairwiseTraits>() && parcel.step == 1) {
      there -= FirstOf(message.payload[0]);
    }
  });
  // Merges of shares that are no powers of two round.
  if (std::abs(there - due) > 1e-12 * due) {
    Fail(absl::StrCat("D3: the values sum to ", there, "; the gradients to ", due));
  }
  if (ExchangesBy<consistency::PushSumTraits>() && weight != seated) {
    Fail(absl::StrCat("D3: the weights sum to ", weight, " of ", seated));
  }
}

void PeerWorld::CheckEnd() {
  const std::vector<std::vector<double>> values = Values();
  if (ExchangesBy<consistency::CollectiveTraits>()) {
    for (uint32_t i = 0; i < processes_.size(); ++i) {
      for (const Clock clock : processes_[i].computed) {
        // All of it, or of who is gone nothing; the last element counts.
        const bool may_miss = !processes_[i].Counts();
        const uint64_t first = TimesIn(values[0][0], i, clock);
        for (size_t e = 0; e + 1 < values[0].size(); ++e) {
          const uint64_t times = TimesIn(values[0][e], i, clock);
          if (times == first && (times == 1 || (may_miss && times == 0))) continue;
          return Fail(absl::StrCat("D2: the gradient of process ", i, " at clock ", clock,
                                   " is in ", times, " times, at element ", e));
        }
      }
    }
    return;
  }
  if (members_changed_) return;
  double due = 0, there = 0, weight = 0;
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    due += processes_[i].applied;
    there += values[i][0] * processes_[i].peer.policy()->weight();
    weight += processes_[i].handed_weight;
  }
  if (std::abs(there - due) > 1e-12 * due) {
    Fail(absl::StrCat("D3: at the end the values sum to ", there, "; the gradients to ", due));
  }
  if (std::abs(weight - static_cast<double>(processes_.size())) > 1e-5) {
    Fail(absl::StrCat("D3: what is handed in weighs ", weight));
  }
}

}  // namespace soapstone::sim
