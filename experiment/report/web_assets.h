// The parts of the report's page, from web/, as they were when the program was built.
#pragma once

#include "absl/strings/string_view.h"

namespace soapstone::experiment {

absl::string_view PageHtml();
absl::string_view PageCss();
absl::string_view PageJs();
absl::string_view UplotCss();
absl::string_view UplotJs();

}  // namespace soapstone::experiment
