#include "apps/profile/scratch_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace soapstone::apps {

ScratchFolder::ScratchFolder() {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / "soapstone-plan-XXXXXX").string();
  made_ = !error && mkdtemp(path_.data()) != nullptr;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (made_) std::filesystem::remove_all(path_, ignored);
}

}  // namespace soapstone::apps
