// Disk: what checkpoints need of a file system, each step by itself, so that a test can end the
// machine between any two of them (simulated_disk.h). Knows no checkpoint.
//
// Only what is asked for is on the disk after a loss of power: a file's bytes by its Sync, that it
// is there, and under which name, by SyncFolder of the folder that it is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone::checkpoint {

// Errors: NotFound where nothing is there; ResourceExhausted where the disk is full; else
// Unavailable. Each begins with the path, and says what the system says.
class Disk {
 public:
  // A file that is being written. Its destructor closes it; nothing is asked for by that.
  class File {
   public:
    virtual ~File() = default;
    virtual absl::Status Append(const void* data, size_t bytes) = 0;
    // An error says nothing of what is on the disk: the file is to be written anew. A second Sync
    // may say that all is well when it is not.
    virtual absl::Status Sync() = 0;
  };

  virtual ~Disk() = default;
  // An empty file, in the place of what was there.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // With the folders above it; what is there already stays.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // A file at `to` gives way to a file, at once. REQUIRES: nothing else is there.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // With all that is in it. What is not there is no error.
  virtual absl::Status Remove(const std::string& path) = 0;
  // The names in a folder, ascending.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
  virtual absl::StatusOr<uint64_t> SizeOf(const std::string& path) = 0;
  // Bytes [offset, offset + bytes) of a file. Error besides: OutOfRange where it ends before that.
  virtual absl::Status Read(const std::string& path, uint64_t offset, void* data, size_t bytes) = 0;
};

// This machine's. Any thread.
std::unique_ptr<Disk> RealDisk();

// All of a file of at most `bytes_max`. Error besides: ResourceExhausted beyond.
absl::StatusOr<std::string> ReadAll(Disk* disk, const std::string& path, uint64_t bytes_max);

}  // namespace soapstone::checkpoint
