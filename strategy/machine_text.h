// Machines as a person writes them (wire/config/machine.proto): kinds, nodes, what connects them.
// Expands such a text to a Machine: a link for each direction of each connection, and the path of
// fewest links between any two of devices and servers. Called by the shell, which reads the file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "strategy/machine.h"

namespace soapstone::planner {

inline constexpr uint32_t kDevicesMax = 1024;

// A message from device a to device b of another node passes a's way to the node's processor (none
// where NICs are direct), a NIC of a's node outwards, what leads from fabric to fabric, a NIC of
// b's node inwards, and b's way from the processor. Device d of D uses NIC ⌊d·K/D⌋ of K. Servers
// are at the processor.
// `file` stands for the text in errors. Errors: InvalidArgument, "file:line:column: field: what".
absl::StatusOr<Machine> ParseMachine(const std::string& text, const std::string& file);

}  // namespace soapstone::planner
