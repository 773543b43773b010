// All searchers by name: what --search takes and what comparisons run.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// All of them, in the order of listings.
absl::Span<const Searcher* const> Searchers();
// Errors: InvalidArgument: there is none of that name; lists the names.
absl::StatusOr<const Searcher*> FindSearcher(std::string_view name);

}  // namespace soapstone::planner
