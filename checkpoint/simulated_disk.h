// SimulatedDisk: a disk in memory whose machine can end between any two steps, and which then has
// what a real one may have: of bytes that were not synced any 512, the rest zeros or not there, of
// changes to a folder that were not synced any. For tests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/disk.h"

namespace soapstone::checkpoint {

// Faults of who writes, as if it forgot a step.
enum class DiskMutant : uint8_t {
  kNone,
  kFilesNotSynced,
  kFoldersNotSynced,
};

// One thread.
class SimulatedDisk : public Disk {
 public:
  explicit SimulatedDisk(DiskMutant mutant = DiskMutant::kNone);

  // So many more steps that change something are made; then the machine is gone, and each fails.
  void EndAfter(uint64_t steps) { steps_left_ = steps; }
  bool ended() const { return steps_left_ == 0; }
  uint64_t steps() const { return steps_; }  // made
  // So many bytes fit besides those that are there.
  void SetRoom(uint64_t bytes) { room_ = used_ + bytes; }
  // What is there when the machine starts again; what a loss leaves to chance is drawn from `seed`.
  void Restart(uint64_t seed);
  // For tests of readers.
  std::string* Contents(const std::string& path);
  // All that is there, by path.
  std::vector<std::string> Paths() const;

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::StatusOr<uint64_t> SizeOf(const std::string& path) override;
  absl::Status Read(const std::string& path, uint64_t offset, void* data, size_t bytes) override;

 private:
  struct Node;
  class OpenFile;
  using Nodes = std::map<std::string, std::shared_ptr<Node>>;
  // Names that get or lose a node, all at once.
  using Change = std::vector<std::pair<std::string, std::shared_ptr<Node>>>;
  struct Node {
    bool folder = false;
    std::string data;
    size_t synced = 0;  // bytes
    Nodes entries;
    Nodes kept;                   // entries that are on the disk
    std::vector<Change> changes;  // since
  };

  absl::Status Step();
  std::shared_ptr<Node> Find(const std::string& path) const;
  // Changes a folder's entries. REQUIRES: it is there.
  void Make(const std::string& folder, Change change);
  static void Apply(const Change& change, Nodes* entries);
  void Lose(Node* node, uint64_t* draws, uint64_t seed);

  DiskMutant mutant_;
  std::shared_ptr<Node> root_ = std::make_shared<Node>();
  std::optional<uint64_t> steps_left_;
  uint64_t steps_ = 0;
  uint64_t room_ = UINT64_MAX;
  uint64_t used_ = 0;
};

}  // namespace soapstone::checkpoint
