// What a machine's file may say, before machine_text.cc makes a machine of it: names that exist,
// numbers within bounds, trees without circles. Each error begins with its place in the file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "wire/config/machine.pb.h"
#include "wire/config/text_config.h"

namespace soapstone::planner {

// The processor of a node, as a switch's parent and as a vertex of its graph.
inline constexpr char kHostVertex[] = "host";

template <class... Pieces>
absl::Status ErrorAt(const std::string& place, const Pieces&... pieces) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", pieces...));
}

// InvalidArgument: the first thing that is wrong. Where it is OK the machine has at most
// kDevicesMax devices, and what is made of it fits into memory.
absl::Status CheckMachineConfig(const wire::MachineConfig& config, const wire::TextPlaces& places);

}  // namespace soapstone::planner
