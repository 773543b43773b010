// Evaluation: what a checkpoint's evaluation is to who waits for it; side_process.h is one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace soapstone::apps {

// One thread. It ends with its destructor.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // What `soapstone evaluate --json` says, once it has; or why it does not. Waits for nothing.
  virtual std::optional<absl::StatusOr<std::string>> Poll(Nanos now) = 0;
};

}  // namespace soapstone::apps
