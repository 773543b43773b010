// Paths in job files. What is written in a file is relative to the file's folder, so that a job
// means the same from wherever it is started; what is given by flags is relative to the working
// folder. Who calls: all that read or write job files, or files with jobs in them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// The fields that are paths: model (onnx:FILE), data.path, data.labels_path, data.test_path,
// data.test_labels_path, training.initial_weights (but "random"), file= of training.stragglers,
// cluster.strategy (but "auto"), that of cluster.scheduler (ipc://PATH), and of output model_path,
// log_dir, trace_path, record_path, tensorboard_path, timeline_path and curve_path. Empty ones and
// those that begin at the root stay as they are.

// A job file with its paths relative to the working folder. Errors: NotFound; those of ParseJobText
// (cluster/job_config.h).
absl::StatusOr<wire::JobConfig> ReadJobFile(const std::string& path);

// From relative to `folder` to relative to the working folder.
void FromFolder(const std::string& folder, wire::JobConfig* config);
// The same of training.stragglers alone.
std::string StragglersFromFolder(const std::string& folder, const std::string& stragglers);
// The way back, for a file that is written into `folder`, which must be there.
void ToFolder(const std::string& folder, wire::JobConfig* config);

// What a job reads: data.path, labels_path, test_path and test_labels_path, empty where it has
// none; then the initial weights and the model (onnx:FILE), if it has them.
std::vector<std::string> FilesRead(const wire::JobConfig& config);
// A file that is to be written, and the field or flag that says so. Without a path it is none.
struct FileWritten {
  std::string said_by, path;
  bool goes_on = false;  // with the initial weights: it may be their file
  bool folder = false;   // of several files: may be that of others
};
// That each is another file, and none that the job reads, nor in a folder that it reads, nor one of
// `also_read`: job file, keys. Error: InvalidArgument, one line.
absl::Status CheckApart(const std::vector<FileWritten>& written, const wire::JobConfig& config,
                        const std::vector<std::string>& also_read);
// The file= of a spec of stragglers.
std::vector<std::string> FilesOfStragglers(const std::string& stragglers);

// training.stragglers without the folders of its files, which may differ by machine.
std::string StragglersWithoutFolders(const std::string& stragglers);

}  // namespace soapstone::apps
