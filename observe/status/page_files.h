// The files of page/, as they were when the program was built.
#pragma once

#include "absl/strings/string_view.h"

namespace soapstone::status {

absl::string_view PageHtml();
absl::string_view PageCss();
absl::string_view PageDrawJs();
absl::string_view PageBoardJs();
absl::string_view PageIcon();

}  // namespace soapstone::status
