// Public data sets that the examples and pages use: where they are published, what their files
// hold, how a job loads them. Who calls: `soapstone data`. Knows no network: people fetch.
//
// A file is known by the SHA-256 of what is in it, unpacked: publishers and mirrors pack the same
// bytes in other ways, and under other names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone::apps {

struct PublicFile {
  std::string name;  // as it is laid out, unpacked
  uint64_t bytes = 0;
  std::string sha256;
  std::string flag;  // of `soapstone train`, which takes its path; empty: its folder is given
};

struct PublicDataSet {
  std::string name;
  std::string what;
  std::string licence;
  std::vector<std::string> fetch;  // commands for a shell, in order
  std::string train;               // flags of `soapstone train` besides those of the files
  std::string folder_flag;         // of the files that have none of their own; empty: all have
  std::string example;             // a job that finds it in data/NAME; empty: none
  std::vector<PublicFile> files;   // empty: its publisher gives no hash
};

const std::vector<PublicDataSet>& PublicDataSets();

// Error: NotFound, with the names there are.
absl::StatusOr<PublicDataSet> PublicDataSetOf(const std::string& name);

// data/NAME: where examples expect it, from the project's folder.
std::string UsualFolder(const PublicDataSet& set);

// The flags with which `soapstone train` loads what LayOut has put into `folder`.
std::string TrainFlags(const PublicDataSet& set, const std::string& folder);

// Finds the set's files in `from`, a file or a folder, by what is in them, gzip or not and whatever
// their names, and writes them into the folder `to`, unpacked, each at once. Nothing is written
// unless all are there. Errors, in one line: InvalidArgument for a file that is missing, or has the
// name of one of the set's and other contents, or cannot be written; NotFound where `from` is not
// there.
absl::Status LayOut(const PublicDataSet& set, const std::string& from, const std::string& to);

}  // namespace soapstone::apps
