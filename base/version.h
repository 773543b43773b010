// What the programs are, as --version, metrics and pages say it.
#pragma once

namespace soapstone {

inline constexpr char kVersion[] = "soapstone 0.1.0";

}  // namespace soapstone
