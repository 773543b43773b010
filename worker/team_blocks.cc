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
  return !blocks_.empty() && (clock > std::get<Clock>(blocks_.begin()->first) + ahead ||
                              clock + ahead < std::get<Clock>(blocks_.rbegin()->first));
}

uint32_t TeamBlocks::TeamOf(MicroBatchRange taken_over) const {
  return taken_over.empty() ? options_->team()
                            : taken_over.begin / options_->TeamMicroBatches().size();
}

std::optional<uint32_t> TeamBlocks::TeamOf(const wire::Message& message) const {
  const MicroBatchRange range = wire::As<wire::Block>(message).micro_batches;
  const uint32_t team = TeamOf(range);
  if (range.empty()) return range == MicroBatchRange() ? std::optional(team) : std::nullopt;
  const bool lost = options_->team_takes_over() && team < options_->seat->team.teams &&
                    team != options_->team() && range == options_->MicroBatchesOf(team) &&
                    message.clock < options_->total_clocks;
  return lost ? std::optional(team) : std::nullopt;
}

// Blocks of one team are of clocks that are near each other; of two that are not, the one of an
// earlier epoch is a former team's, which came before the roster that would have said so.
void TeamBlocks::DropFormer(Clock clock, Epoch epoch) {
  const Clock ahead = 1 + options_->seat->lead_max;
  std::erase_if(blocks_, [&](const auto& kept) {
    const Clock at = std::get<Clock>(kept.first);
    return kept.second.epoch < epoch && (at + ahead < clock || clock + ahead < at);
  });
}

bool TeamBlocks::Keep(const wire::Message& message, Clock now, bool begun) {
  if (options_->seat == nullptr || message.clock < 0) return false;
  const std::optional<uint32_t> team = TeamOf(message);
  if (!team.has_value() || message.epoch < admitted_) return false;
  const bool own = *team == options_->team();
  if (message.clock < (own ? now : taken_over_from_)) return false;
  const SeatOutline* outline =
      own ? options_->SeatOutlineAt(message.clock) : options_->SeatOutlineOf(*team, message.clock);
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
  const auto [at, is_new] = blocks_.try_emplace({message.clock, *team, number});
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

Buffer TeamBlocks::Take(Clock clock, uint32_t number, MicroBatchRange taken_over) {
  const auto at = blocks_.find({clock, TeamOf(taken_over), number});
  CHECK(at != blocks_.end()) << "a block that is not here";
  Buffer block = std::move(at->second.block);
  at->second.block = Buffer();  // its place stays: a second copy is known by it
  return block;
}

void TeamBlocks::DropBefore(Clock clock, Clock taken_over) {
  if (options_->seat == nullptr) return;
  taken_over_from_ = std::max(taken_over_from_, std::min(taken_over, clock));
  const uint32_t own = options_->team();
  std::erase_if(blocks_, [&](const auto& kept) {
    const auto& [of, team, number] = kept.first;
    return of < (team == own ? clock : taken_over_from_);
  });
}

void TeamBlocks::AddTo(Fingerprint* f) const {
  f->Add(blocks_.size());
  for (const auto& [key, kept] : blocks_) {
    f->Add(std::get<0>(key));
    f->Add(std::get<1>(key));
    f->Add(std::get<2>(key));
    f->Add(kept.block.size());
    f->Add(kept.epoch);
  }
  f->Add(admitted_);
}

}  // namespace soapstone::worker
