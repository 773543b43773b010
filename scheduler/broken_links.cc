#include "scheduler/broken_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/spoken.h"

namespace soapstone::scheduler {

void BrokenLinks::Record(Nanos now, wire::Address from, const wire::LostLink& lost) {
  if (from == lost.other) return;
  const auto [a, b] = std::minmax(from, lost.other);
  pairs_.emplace(Pair(a, b), Broken{now, lost.why});
}

void BrokenLinks::Forget(wire::Address node) {
  std::erase_if(pairs_, [&](const auto& pair) {
    return pair.first.first == node || pair.first.second == node;
  });
}

std::optional<Nanos> BrokenLinks::NextDue(Nanos now, Nanos patience) const {
  std::optional<Nanos> next;
  for (const auto& [pair, broken] : pairs_) {
    const Nanos due = broken.since + patience;
    if (due > now && (!next.has_value() || due < *next)) next = due;
  }
  return next;
}

size_t BrokenLinks::CountOf(wire::Address node) const {
  return static_cast<size_t>(std::count_if(pairs_.begin(), pairs_.end(), [&](const auto& pair) {
    return pair.first.first == node || pair.first.second == node;
  }));
}

// Servers are below workers: `a` is a server where one of them is.
BrokenLinks::Verdict BrokenLinks::VerdictOn(wire::Address a, wire::Address b,
                                            const std::string& why) const {
  Verdict verdict{.out = b,
                  .other = a,
                  .line = absl::StrCat("the link between ", Spoken(a), " and ", Spoken(b),
                                       " is lost (", why, ")")};
  if (a.role == b.role && CountOf(a) > CountOf(b)) std::swap(verdict.out, verdict.other);
  return verdict;
}

void BrokenLinks::AddTo(Fingerprint* f) const {
  f->Add(pairs_.size());
  for (const auto& [pair, broken] : pairs_) {
    for (const wire::Address node : {pair.first, pair.second}) {
      f->Add(node.role);
      f->Add(node.index);
    }
  }
}

}  // namespace soapstone::scheduler
