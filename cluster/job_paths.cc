#include "cluster/job_paths.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "cluster/job_config.h"
#include "cluster/team/job_strategy.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

constexpr char kIpc[] = "ipc://";
constexpr char kOnnx[] = "onnx:";
constexpr char kFile[] = "file=";

using PathChange = std::function<std::string(const std::string&)>;

// Of a relative path; others stay as they are.
std::string Changed(const std::string& path, const PathChange& change) {
  return path.empty() || fs::path(path).is_absolute() ? path : change(path);
}

// Each "file=PATH" of a spec of stragglers ("trace:file=a.csv,base_us=5+slow:factor=2").
std::string EachFile(const std::string& spec, const PathChange& change) {
  std::string changed;
  for (size_t at = 0; at < spec.size();) {
    const size_t file = spec.find(kFile, at);
    const bool is_option =
        file != spec.npos && file > 0 && (spec[file - 1] == ':' || spec[file - 1] == ',');
    if (!is_option) {
      const size_t end = file == spec.npos ? spec.size() : file + 1;
      changed += spec.substr(at, end - at);
      at = end;
      continue;
    }
    const size_t begin = file + std::strlen(kFile);
    const size_t end = std::min(spec.find_first_of(",+", begin), spec.size());
    absl::StrAppend(&changed, spec.substr(at, begin - at), change(spec.substr(begin, end - begin)));
    at = end;
  }
  return changed;
}

std::string ChangedFiles(const std::string& spec, const PathChange& change) {
  return EachFile(spec, [&](const std::string& path) { return Changed(path, change); });
}

// A strategy that is to be found has no path; a file of that name keeps a folder.
std::string ChangedStrategy(const std::string& strategy, const PathChange& change) {
  if (strategy == kAutoStrategy) return strategy;
  const std::string changed = Changed(strategy, change);
  return changed == kAutoStrategy ? absl::StrCat("./", changed) : changed;
}

// Messages that the job does not have are not made.
void ChangePaths(const PathChange& change, wire::JobConfig* config) {
  std::vector<std::string*> paths;
  if (const std::string onnx = OnnxPathOf(config->model()); !onnx.empty()) {
    config->set_model(absl::StrCat(kOnnx, Changed(onnx, change)));
  }
  if (config->has_data()) {
    wire::Data* data = config->mutable_data();
    paths = {data->mutable_path(), data->mutable_labels_path(), data->mutable_test_path(),
             data->mutable_test_labels_path()};
  }
  if (config->has_output()) {
    wire::Output* output = config->mutable_output();
    paths.insert(paths.end(), {output->mutable_model_path(), output->mutable_log_dir(),
                               output->mutable_trace_path(), output->mutable_record_path(),
                               output->mutable_curve_path(), output->mutable_tensorboard_path(),
                               output->mutable_timeline_path(), output->mutable_checkpoint_path()});
  }
  if (config->has_training()) {
    wire::Training* training = config->mutable_training();
    if (training->initial_weights() != "random") {
      paths.push_back(training->mutable_initial_weights());
    }
    training->set_stragglers(ChangedFiles(training->stragglers(), change));
  }
  if (config->has_cluster()) {
    wire::Cluster* cluster = config->mutable_cluster();
    cluster->set_strategy(ChangedStrategy(cluster->strategy(), change));
    if (cluster->scheduler().starts_with(kIpc)) {
      cluster->set_scheduler(
          absl::StrCat(kIpc, Changed(cluster->scheduler().substr(std::strlen(kIpc)), change)));
    }
  }
  for (std::string* path : paths) *path = Changed(*path, change);
}

// Whether "a/.." is nothing in it: no folder of its path is a link.
bool IsPlain(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = (fs::absolute(folder, error) / "").lexically_normal();
  const fs::path canonical = fs::weakly_canonical(folder, error) / "";
  return !error && absolute == canonical.lexically_normal();
}

// From relative to `folder`, which is not empty, to relative to the working folder.
PathChange ChangeFrom(const std::string& folder) {
  return [folder, plain = IsPlain(folder)](const std::string& path) {
    const fs::path joined = fs::path(folder) / path;
    return plain ? joined.lexically_normal().string() : joined.string();
  };
}

}  // namespace

void FromFolder(const std::string& folder, wire::JobConfig* config) {
  if (!folder.empty()) ChangePaths(ChangeFrom(folder), config);
}

std::string StragglersFromFolder(const std::string& folder, const std::string& stragglers) {
  return folder.empty() ? stragglers : ChangedFiles(stragglers, ChangeFrom(folder));
}

void ToFolder(const std::string& folder, wire::JobConfig* config) {
  std::error_code error;
  const fs::path from = fs::absolute(folder.empty() ? "." : folder, error).lexically_normal();
  const bool plain = IsPlain(from);
  ChangePaths(
      [&](const std::string& path) {
        const fs::path absolute = fs::absolute(path, error).lexically_normal();
        return plain ? absolute.lexically_relative(from).string() : absolute.string();
      },
      config);
}

std::vector<std::string> FilesRead(const wire::JobConfig& config) {
  const wire::Data& data = config.data();
  std::vector<std::string> files = {data.path(), data.labels_path(), data.test_path(),
                                    data.test_labels_path()};
  const std::string& weights = config.training().initial_weights();
  if (!weights.empty() && weights != "random") files.push_back(weights);
  if (std::string onnx = OnnxPathOf(config.model()); !onnx.empty()) files.push_back(onnx);
  return files;
}

namespace {

constexpr int kLinksMax = 40;  // to a file, as the system's own

// From the root on, without links, also of what is not there yet: a link may lead to it.
fs::path Whole(const std::string& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  for (int i = 0; i < kLinksMax && fs::is_symlink(whole, error); ++i) {
    whole = fs::weakly_canonical(whole.parent_path() / fs::read_symlink(whole, error), error);
  }
  return whole;
}

// Also of one that is not there yet. A device takes what anybody writes.
bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (a.empty() || b.empty()) return false;
  if (fs::exists(a, error)) return fs::is_regular_file(a, error) && fs::equivalent(a, b, error);
  return Whole(a) == Whole(b);
}

bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  if (path.empty() || folder.empty() || !fs::is_directory(folder, error)) return false;
  const fs::path inner = Whole(path);
  const fs::path outer = Whole(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

absl::Status CheckApart(const std::vector<FileWritten>& written, const wire::JobConfig& config,
                        const std::vector<std::string>& also_read) {
  const std::string& weights = config.training().initial_weights();
  std::vector<std::string> read = FilesRead(config);
  std::erase(read, weights);
  for (std::string& file : FilesOfStragglers(config.training().stragglers())) {
    read.push_back(std::move(file));
  }
  if (!IsAutoStrategy(config)) read.push_back(config.cluster().strategy());
  read.insert(read.end(), also_read.begin(), also_read.end());
  for (size_t i = 0; i < written.size(); ++i) {
    const auto clashes = [&mine = written[i]](const std::string& other, const std::string& why) {
      if (!IsSameFile(mine.path, other)) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(mine.said_by, ": ", mine.path, " is ", why, ": give another name"));
    };
    constexpr char kRead[] = "a file that the job reads";
    for (const std::string& file : read) {
      SOAP_RETURN_IF_ERROR(clashes(file, kRead));
      if (!IsWithin(written[i].path, file)) continue;
      return absl::InvalidArgumentError(absl::StrCat(written[i].said_by, ": ", written[i].path,
                                                     " is in ", file,
                                                     ", which the job reads: give another name"));
    }
    if (!written[i].goes_on) SOAP_RETURN_IF_ERROR(clashes(weights, kRead));
    for (size_t k = 0; k < i && !written[i].folder; ++k) {
      if (written[k].folder) continue;
      SOAP_RETURN_IF_ERROR(clashes(written[k].path, absl::StrCat(written[k].said_by, " too")));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> FilesOfStragglers(const std::string& stragglers) {
  std::vector<std::string> files;
  EachFile(stragglers, [&](const std::string& path) {
    files.push_back(path);
    return path;
  });
  return files;
}

std::string StragglersWithoutFolders(const std::string& stragglers) {
  std::string bare = stragglers;
  // Also of files from the root on.
  for (size_t at = bare.find(kFile); at != bare.npos; at = bare.find(kFile, at + 1)) {
    const size_t begin = at + std::strlen(kFile);
    const size_t end = std::min(bare.find_first_of(",+", begin), bare.size());
    const size_t slash = bare.rfind('/', end);
    if (slash != bare.npos && slash >= begin) bare.erase(begin, slash + 1 - begin);
  }
  return bare;
}

absl::StatusOr<wire::JobConfig> ReadJobFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("job file ", text.status().message()));
  }
  absl::StatusOr<wire::JobConfig> config = ParseJobText(*text, path);
  if (config.ok()) FromFolder(fs::path(path).parent_path().string(), &*config);
  return config;
}

}  // namespace soapstone::apps
