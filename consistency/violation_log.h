// ViolationLog: what one ledger has found broken, by kind: how often, and where first. A value:
// copied with its ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/memory/state_image.h"

namespace soapstone::consistency {

// Violations of one kind. docs/operations.md lists the kinds.
struct ViolationRow {
  std::string kind;
  uint32_t worker = 0;  // of the first: whose read, update or parcel it was
  Clock clock = 0;      // likewise
  uint64_t times = 0;
  std::string first;  // the first in words
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.kind, self.worker, self.clock, self.times, self.first);
  }
  friend bool operator==(const ViolationRow&, const ViolationRow&) = default;
};

class ViolationLog {
 public:
  // One more of `kind`; `text`, in words, is asked for where somebody will read it. The first of
  // its kind and every thousandth are logged.
  void Add(const char* kind, WorkerId worker, Clock clock, absl::FunctionRef<std::string()> text);

  // By kind, in the order of their first.
  const std::vector<ViolationRow>& rows() const { return rows_; }
  uint64_t count() const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.rows_);
  }
  std::optional<std::string> first() const {
    return rows_.empty() ? std::nullopt : std::optional(rows_.front().first);
  }

 private:
  std::vector<ViolationRow> rows_;
};

}  // namespace soapstone::consistency
