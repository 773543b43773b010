#include "worker/team_blocks.h"

#include <algorithm>
#include <vector>

#include "glog/logging.h"

namespace soapstone::worker {
namespace {

const SeatOutline::Block* FindBlock(const std::vector<SeatOutline::Block>& blocks,
                                    uint32_t number) {
  const auto at = std::find_if(blocks.begin(), blocks.end(), [&](const SeatOutline::Block& block) {
    return block.number == number;
  });
  return at == blocks.end() ? nullptr : &*at;
}

}  // namespace

// Of a seat that has not begun, what is here says how far the others are.
bool TeamBlocks::IsTooEarly(Clock clock, Clock now, bool begun) const {
  const Clock ahead = 1 + options_->seat->lead_max;
  if (begun) return clock > now + ahead;
  return !blocks_.empty() && (clock > blocks_.begin()->first.first + ahead ||
                              clock + ahead < blocks_.rbegin()->first.first);
}

// Blocks of one team are of clocks that are near each other; of two that are not, the one of an
// earlier epoch is a former team's, which came before the roster that would have said so.
void TeamBlocks::DropFormer(Clock clock, Epoch epoch) {
  const Clock ahead = 1 + options_->seat->lead_max;
  std::erase_if(blocks_, [&](const auto& kept) {
    const Clock at = kept.first.first;
    return kept.second.epoch < epoch && (at + ahead < clock || clock + ahead < at);
  });
}

bool TeamBlocks::Keep(const wire::Message& message, Clock now, bool begun) {
  const SeatOptions* seat = options_->seat.get();
  if (seat == nullptr || message.clock < now || message.epoch < admitted_) return false;
  const SeatOutline* outline = options_->SeatOutlineAt(message.clock);
  if (outline == nullptr) return false;
  const uint32_t number = wire::As<wire::Block>(message).number;
  const SeatOutline::Block* expected = FindBlock(outline->incoming, number);
  const bool grants = expected == nullptr;
  if (grants) expected = FindBlock(outline->awaited, number);
  if (expected == nullptr || message.payload.size() != (grants ? 0u : 1u)) return false;
  if (message.from != wire::Address::Of(WorkerOf(*expected))) return false;
  const Buffer block = grants ? Buffer() : message.payload[0];
  if (block.size() != expected->bytes || !block.IsFloatAligned()) return false;
  if (!begun) DropFormer(message.clock, message.epoch);
  if (IsTooEarly(message.clock, now, begun)) return false;
  const auto [at, is_new] = blocks_.try_emplace({message.clock, number});
  // Before the roster is here that admits it, a former team's may have come first.
  if (!is_new && (admitted_ > 0 || message.epoch <= at->second.epoch)) return false;
  at->second = Kept{block, message.epoch};
  return true;
}

void TeamBlocks::OnAdmitted(Epoch epoch) {
  admitted_ = epoch;
  std::erase_if(blocks_, [&](const auto& kept) { return kept.second.epoch < epoch; });
}

WorkerId TeamBlocks::WorkerOf(const SeatOutline::Block& block) const {
  const wire::TeamShape& team = options_->seat->team;
  return wire::WorkerAt(wire::TeamOf(options_->id, team), block.seat, team);
}

std::optional<wire::Waiting> TeamBlocks::WaitsFor(Nanos now) const {
  if (!wait_.has_value() || now - wait_->since < options_->patience_ns) return std::nullopt;
  const SeatOutline* outline = options_->SeatOutlineAt(wait_->clock);
  const SeatOutline::Block* block =
      outline != nullptr ? FindBlock(outline->incoming, wait_->number) : nullptr;
  if (block == nullptr) return std::nullopt;
  return wire::Waiting{.of = wire::Address::Of(WorkerOf(*block)),
                       .clock = wait_->clock,
                       .for_ns = now - wait_->since};
}

Buffer TeamBlocks::Take(Clock clock, uint32_t number) {
  const auto at = blocks_.find({clock, number});
  CHECK(at != blocks_.end()) << "a block that is not here";
  Buffer block = std::move(at->second.block);
  at->second.block = Buffer();  // its place stays: a second copy is known by it
  return block;
}

void TeamBlocks::DropBefore(Clock clock) {
  blocks_.erase(blocks_.begin(), blocks_.lower_bound({clock, 0}));
}

void TeamBlocks::AddTo(Fingerprint* f) const {
  f->Add(blocks_.size());
  for (const auto& [key, kept] : blocks_) {
    f->Add(key.first);
    f->Add(key.second);
    f->Add(kept.block.size());
    f->Add(kept.epoch);
  }
  f->Add(admitted_);
}

}  // namespace soapstone::worker
