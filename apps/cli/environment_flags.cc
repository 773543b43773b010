#include "apps/cli/environment_flags.h"

#include <cstdlib>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

const std::set<std::string_view>& OfOneCall() {
  static const std::set<std::string_view> names = {"help", "version", "check", "print_config",
                                                   "key"};
  return names;
}

}  // namespace

std::string EnvironmentName(std::string_view flag) {
  return absl::AsciiStrToUpper(absl::StrCat("SOAPSTONE_", std::string(flag)));
}

void TakeFromEnvironment(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const std::string name = option->get_single_name();
    if (!option->get_lnames().empty() && !OfOneCall().contains(name)) {
      option->envname(EnvironmentName(name));
    }
  }
}

std::vector<std::string> TakenFromEnvironment(const CLI::App& app) {
  std::vector<std::string> taken;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty()) continue;
    const char* const value = std::getenv(option->get_envname().c_str());
    const bool is_its = value != nullptr && option->results() == std::vector<std::string>{value};
    if (is_its) taken.push_back(absl::StrCat(option->get_envname(), "=", value));
  }
  return taken;
}

}  // namespace soapstone::apps
