#include "bench/gloo.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace soapstone::bench {
namespace {

constexpr int kPatienceSeconds = 120;

// What a shell's line prints; "" when it fails.
std::string OutputOf(const std::string& line) {
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  return pclose(pipe) == 0 ? output : "";
}

// Distributions' modules are their own interpreter's, which need not be the first in the path.
std::string PythonWithTorch() {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const std::string line =
        absl::StrCat("timeout 60 ", python,
                     " -c 'import torch.distributed as d; print(d.Backend.GLOO)'", " 2>/dev/null");
    if (!OutputOf(line).empty()) return python;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<Row>> GlooAllReduce(const GlooLoad& load) {
  const std::string python = PythonWithTorch();
  if (python.empty()) return absl::UnavailableError("not installed (python3-torch)");
  if (access(load.script.c_str(), R_OK) != 0) {
    return absl::InternalError(absl::StrCat("there is no ", load.script));
  }
  char folder[] = "/tmp/soapstone-gloo-XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::InternalError("no temporary folder");
  const std::string meeting = absl::StrCat(folder, "/meeting");
  const auto start = [&](int rank) {
    return absl::StrCat("timeout ", kPatienceSeconds, " ", python, " ", load.script, " ", rank, " ",
                        meeting, " ", load.seconds, " ", load.repeats, " ",
                        absl::StrJoin(load.sizes, " "), " 2>/dev/null");
  };
  std::istringstream lines(OutputOf(absl::StrCat(start(1), " >/dev/null & ", start(0))));
  unlink(meeting.c_str());
  rmdir(folder);
  std::map<uint64_t, std::vector<Sample>> samples;
  Sample sample;
  for (uint64_t size; lines >> size >> sample.messages >> sample.seconds >> sample.cpu_seconds;) {
    sample.bytes = size * sample.messages;
    samples[size].push_back(sample);
  }
  std::vector<Row> rows;
  rows.reserve(samples.size());
  for (const auto& [size, of_size] : samples) {
    rows.push_back(RowOf("all-reduce", "gloo", size, of_size));
  }
  if (rows.size() != load.sizes.size()) return absl::InternalError("torch's all-reduce failed");
  return rows;
}

}  // namespace soapstone::bench
