#include "apps/cli/environment_flags.h"

#include <unistd.h>

#include <cstdlib>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/nearest_name.h"

namespace soapstone::apps {
namespace {

constexpr absl::string_view kPrefix = "SOAPSTONE_";

const std::set<std::string_view>& OfOneCall() {
  static const std::set<std::string_view> names = {"help", "version", "check", "print_config",
                                                   "key"};
  return names;
}

// Variables that are nearly a flag's; others may be somebody else's.
std::vector<std::string> Misspelt(const CLI::App& app) {
  std::vector<std::string> known;  // without the prefix, which all share
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_envname();
    if (!name.empty()) known.push_back(name.substr(kPrefix.size()));
  }
  std::vector<std::string> misspelt;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    const absl::string_view name = text.substr(0, text.find('='));
    if (!absl::StartsWith(name, kPrefix)) continue;
    const std::string flag(name.substr(kPrefix.size()));
    const std::vector<std::string> meant = NearestNames(flag, known);
    if (meant.empty() || absl::c_linear_search(meant, flag)) continue;
    misspelt.push_back(
        absl::StrCat(name, " is no flag's; did you mean ", kPrefix, meant.front(), "?"));
  }
  return misspelt;
}

}  // namespace

std::string EnvironmentName(std::string_view flag) {
  return absl::AsciiStrToUpper(absl::StrCat(kPrefix, std::string(flag)));
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
  std::vector<std::string> taken = Misspelt(app);
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    const char* const of_one_call = std::getenv(EnvironmentName(name).c_str());
    if (OfOneCall().contains(name) && of_one_call != nullptr && *of_one_call != '\0') {
      taken.push_back(absl::StrCat(EnvironmentName(name), " is not taken: say --", name,
                                   " on the command line"));
    }
    if (option->get_envname().empty()) continue;
    const char* const value = std::getenv(option->get_envname().c_str());
    const bool is_its = value != nullptr && option->results() == std::vector<std::string>{value};
    if (is_its) taken.push_back(absl::StrCat(option->get_envname(), "=", value));
  }
  return taken;
}

}  // namespace soapstone::apps
