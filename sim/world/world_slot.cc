#include "sim/world/world_slot.h"

#include "absl/strings/str_cat.h"

namespace soapstone::sim {

std::string WorldSlot::Name(uint32_t process) const {
  return absl::StrCat(rank.has_value() ? absl::StrCat("worker-", Index(*rank)) : "unranked",
                      " (process ", process, ")");
}

void WorldSlot::AddTo(Fingerprint* f) const {
  f->Add(rank.has_value() ? Index(*rank) : kUnranked);
  f->Add(uint32_t{started} | uint32_t{leaving} << 1 | uint32_t{crashed} << 2 |
         uint32_t{noticed} << 3 | uint32_t{gone} << 4 | uint32_t{expelled} << 5 |
         uint32_t{silent} << 6);
  f->Add(ranked);
  f->Add(epoch);
  f->Add(told.clock);
  f->Add(told.samples);
  f->Add(told.compute_ns);
  if (engine.has_value()) engine->AddTo(f);
  if (peer.has_value()) peer->AddTo(f);
  device.AddTo(f);
}

}  // namespace soapstone::sim
