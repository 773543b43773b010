#include "apps/cli/job_flags.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/exit_codes.h"
#include "base/nearest_name.h"
#include "base/plain_text.h"

namespace soapstone::apps {
namespace {

constexpr size_t kLineMax = 400;  // of an error, whatever was given

bool MattersInSimulation(const JobField& field) {
  const std::string_view path = field.path;
  return path != "strict" && path.substr(0, 7) != "output." &&
         (path.substr(0, 8) != "cluster." || path == "cluster.workers" ||
          path == "cluster.servers" || path == "cluster.shards_per_server" ||
          path == "cluster.bucket_bytes" || path == "cluster.heartbeat_s" ||
          path == "cluster.heartbeat_timeout_s" || path == "cluster.rebalance" ||
          path == "cluster.strategy" || path == "cluster.teams");
}

// "--config=" and the like, as a script writes it whose variable is empty. CLI11 would take the
// next word for the value.
bool IsFlagWithoutItsValue(std::string_view word) {
  return word.size() > 3 && word.substr(0, 2) == "--" && word.find('=') == word.size() - 1;
}

// "no flag --epoch; did you mean --epochs?" of the first flag that neither the program nor the
// command has; or empty.
std::string NoSuchFlag(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> known;
  const auto add = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  };
  add(app);
  for (const CLI::App* command : app.get_subcommands()) add(*command);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string flag(argument.substr(0, argument.find('=')));
    if (flag.starts_with("--") && std::ranges::find(known, flag) == known.end()) {
      return absl::StrCat("no flag ", flag, DidYouMean(flag, known));
    }
  }
  return "";
}

// The variable that has set an option; empty: the command line has.
std::string VariableOf(const CLI::Option& option) {
  const std::string name = option.get_envname();
  const char* const value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value != nullptr && option.results().back() == value ? name : "";
}

// As a job's own fields and scripts mean it: 010 is ten, where CLI11 reads it as C would, eight.
std::string WithoutLeadingZeros(std::string text) {
  const size_t sign = text.find_first_of("+-") == 0 ? 1 : 0;
  const bool decimal =
      text.size() > sign && text.find_first_not_of("0123456789", sign) == text.npos;
  if (!decimal) return text;
  const size_t first = std::min(text.find_first_not_of('0', sign), text.size() - 1);
  return text.erase(sign, first - sign);
}

void ReadWholeNumbersAsDecimals(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const std::string type = option->get_type_name();
    if (absl::StartsWith(type, "INT") || absl::StartsWith(type, "UINT")) {
      option->transform(WithoutLeadingZeros);
    }
  }
  for (CLI::App* command : app->get_subcommands({})) ReadWholeNumbersAsDecimals(command);
}

}  // namespace

CLI::Option* JobFlagValues::Add(const JobField& field, CLI::App* app) {
  const std::string flag = std::string("--") + field.flag;
  CLI::Option* option = IsSwitch(field) ? app->add_flag(flag, values_[&field], field.help)
                                        : app->add_option(flag, values_[&field], field.help);
  return option->type_name("");
}

void JobFlagValues::AddTo(CLI::App* app) {
  for (const JobField& field : JobFields()) {
    options_[&field] = Add(field, app)->group("Job (each overrides a field of --config)");
  }
}

void JobFlagValues::AddToSimulate(CLI::App* app, CLI::Option* job) {
  for (const JobField& field : JobFields()) {
    if (!MattersInSimulation(field)) continue;
    const std::string name = std::string("--") + field.flag;
    CLI::Option* option = app->get_option_no_throw(name);
    if (option == nullptr) {
      option = Add(field, app);
      option->group("Job (each overrides a field of --job)")->needs(job);
    }
    options_[&field] = option;
  }
}

void JobFlagValues::AddDataPaths(CLI::App* app) {
  for (const JobField& field : JobFields()) {
    const std::string_view path = field.path;
    if (path.substr(0, 5) != "data." || path.find("path") == path.npos) continue;
    options_[&field] = Add(field, app)->group("Data, where they lie elsewhere than in the run");
  }
}

void JobFlagValues::AddMissing(CLI::App* app) {
  for (const JobField& field : JobFields()) {
    if (std::string_view(field.path) == "data.missing") options_[&field] = Add(field, app);
  }
}

std::vector<JobOverride> JobFlagValues::Given() const {
  std::vector<JobOverride> given;
  for (const JobField& field : JobFields()) {
    const auto it = options_.find(&field);
    if (it == options_.end() || it->second->count() == 0) continue;
    given.push_back({&field, it->second->results().back(), VariableOf(*it->second)});
  }
  return given;
}

std::variant<std::monostate, EndNow> Parse(CLI::App* app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (!IsFlagWithoutItsValue(argv[i])) continue;
    const std::string_view flag = std::string_view(argv[i]).substr(0, std::strlen(argv[i]) - 1);
    std::cerr << app->get_name() << ": " << flag
              << (flag == "--config" ? ": no file named" : ": no value given") << "\n";
    return EndNow{kExitConfig};
  }
  ReadWholeNumbersAsDecimals(app);
  try {
    app->parse(argc, argv);
    return std::monostate{};
  } catch (const CLI::Success& success) {  // --help, --version
    app->exit(success, std::cout, std::cerr);
    return EndNow{kExitOk};
  } catch (const CLI::ParseError& error) {
    // Without it something else may be missing, which is the less that is wrong.
    std::string line = NoSuchFlag(*app, argc, argv);
    if (line.empty()) line = error.what();
    if (line.size() > kLineMax) line = absl::StrCat(line.substr(0, kLineMax), "...");
    std::cerr << app->get_name() << ": " << PlainText(absl::StrReplaceAll(line, {{"\n", " "}}))
              << " (--help lists the flags)\n";
    return EndNow{kExitConfig};
  }
}

}  // namespace soapstone::apps
