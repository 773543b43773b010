#include "scheduler/entrance.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "scheduler/spoken.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::Notice;

namespace {

Entrance::Out Refuse(int32_t code, std::string text) {
  return {wire::MessageType::kRefuse, {code, std::move(text)}};
}

}  // namespace

Entrance::Verdict Entrance::Judge(Nanos now, const wire::Hello& hello, Registry* nodes,
                                  Stage stage) {
  if (hello.config_digest != options_.config_digest) {
    // What it should have been is not said: who knows it is given a rank, and the session.
    return Refuse(kExitConfig,
                  absl::StrFormat("the job's configuration (digest %016x) differs from "
                                  "the scheduler's: start all with the same job file, flags "
                                  "and data (--print_config prints what is to be equal)",
                                  hello.config_digest));
  }
  if (const auto place = nodes->PlaceOf(hello); place.has_value()) return Again{*place};
  if (hello.role == wire::Role::kServer && stage != Stage::kRegistering) {
    return Refuse(kExitPeerLost, "the job is running: a server cannot join it");
  }
  if (stage == Stage::kEnding) {
    return Refuse(kExitPeerLost, "the job is ending: nobody can join it any more");
  }
  const auto found = nodes->PlaceFor(hello, now);
  if (const auto* why = std::get_if<Notice>(&found)) return Refuse(why->code, why->text);
  if (const auto* taken = std::get_if<Registry::Taken>(&found)) {
    if (taken->place.has_value()) nodes->Question(*taken->place, hello.nonce, now);
    return Out{wire::MessageType::kWait, {kExitPeerLost, taken->why}};
  }
  const Address place = std::get<Address>(found);
  if (!IsLike(hello, place)) return WhyUnlike(hello);
  return place;
}

std::string Entrance::Told(const wire::Hello& hello, const Notice& why) {
  const std::string host = hello.host.empty() ? "" : absl::StrCat(" on ", hello.host);
  const std::string rank =
      hello.wanted_rank < 0 ? "" : absl::StrCat(" that asked for rank ", hello.wanted_rank);
  return absl::StrCat("a ", Spoken(hello.role), host, rank, " is refused: ", why.text);
}

// It computes as the others of its role do, or is the first.
bool Entrance::IsLike(const wire::Hello& hello, Address place) {
  if (!options_.one_arithmetic) return true;
  const auto [first, is_first] =
      arithmetic_.try_emplace(hello.role, Arithmetic{hello.arithmetic, place});
  return first->second.text == hello.arithmetic;
}

Entrance::Out Entrance::WhyUnlike(const wire::Hello& hello) const {
  const Arithmetic& first = arithmetic_.at(hello.role);
  const char* const way_out = hello.role == wire::Role::kWorker
                                  ? "start all with the same --isa (cluster.isa: sse41, avx2 or "
                                    "avx512) and the same oneDNN and C library"
                                  : "start all with the same C library on like processors";
  return Refuse(
      kExitConfig,
      absl::StrCat("computes with ", hello.arithmetic, " where ", Spoken(first.of), " does with ",
                   first.text, ": sums would have other bits than the policy promises; ", way_out));
}

Entrance::Out Entrance::AfterTheEnd(bool same_job, const Notice& end) {
  const bool for_good = end.code == kExitInternal || end.code == kExitBroken ||
                        end.code == kExitConfig || end.code == kExitNotFinite;
  return Refuse(same_job && for_good ? end.code : kExitPeerLost,
                absl::StrCat("the job is over: ", end.text));
}

void Entrance::AddTo(Fingerprint* f) const {
  for (const auto& [role, arithmetic] : arithmetic_) {
    f->Add(role);
    f->Add(arithmetic.text);
  }
}

}  // namespace soapstone::scheduler
