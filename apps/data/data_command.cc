#include "apps/data/data_command.h"

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/cli/job_source.h"
#include "apps/data/public_data.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

constexpr char kDataProgram[] = "soapstone data";

std::string TextOf(const PublicDataSet& set) {
  std::string text = absl::StrCat(set.name, ": ", set.what, " (", set.licence, ")\n");
  const char* label = "  fetch    ";
  for (const std::string& command : set.fetch) {
    absl::StrAppend(&text, label, command, "\n");
    label = "           ";
  }
  uint64_t bytes = 0;
  for (const PublicFile& file : set.files) bytes += file.bytes;
  if (bytes > 0) {
    absl::StrAppend(&text, "  size     ", Bytes(bytes), " in ", set.files.size(),
                    set.files.size() == 1 ? " file" : " files", ", unpacked\n");
  }
  if (!set.fetch.empty()) {
    absl::StrAppend(&text, "  check    ",
                    set.files.empty() ? "its publisher gives no hash"
                                      : absl::StrCat("soapstone data ", set.name, " --from=."),
                    "\n");
  }
  const bool ships = set.fetch.empty();
  absl::StrAppend(&text, "  train    soapstone train ",
                  ships ? set.train : TrainFlags(set, UsualFolder(set)), "\n");
  if (!set.example.empty()) {
    absl::StrAppend(&text, "  example  soapstone train --config=", set.example, "\n");
  }
  return text;
}

int List() {
  std::cout << "Soapstone downloads nothing. Fetch a set with the commands that stand here, then "
               "have it checked:\nits files are laid out in data/NAME, where the examples find "
               "them.\n";
  for (const PublicDataSet& set : PublicDataSets()) std::cout << "\n" << TextOf(set);
  return kExitOk;
}

}  // namespace

int Data(const DataFlags& flags) {
  if (flags.name.empty()) return List();
  const absl::StatusOr<PublicDataSet> set = PublicDataSetOf(flags.name);
  if (!set.ok()) return SayConfigError(kDataProgram, set.status());
  if (flags.from.empty()) {
    std::cout << TextOf(*set);
    return kExitOk;
  }
  if (set->files.empty()) {
    return SayConfigError(
        kDataProgram, absl::InvalidArgumentError(
                          absl::StrCat(set->name,
                                       ": its publisher gives no hash, so that there is nothing to "
                                       "check; give the file to train with --data_path")));
  }
  const std::string to = flags.to.empty() ? UsualFolder(*set) : flags.to;
  const absl::Status laid = LayOut(*set, flags.from, to);
  if (!laid.ok()) return SayConfigError(kDataProgram, laid);
  std::cout << set->name << ": " << set->files.size()
            << (set->files.size() == 1 ? " file is" : " files are") << " as published; in " << to
            << "\n  soapstone train " << TrainFlags(*set, to) << "\n";
  return kExitOk;
}

}  // namespace soapstone::apps
