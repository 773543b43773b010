#include "checkpoint/simulated_disk.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace soapstone::checkpoint {
namespace {

constexpr size_t kSector = 512;

std::pair<std::string, std::string> FolderAndName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

absl::Status NothingAt(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, ": nothing is there"));
}

// A coin.
bool Draw(uint64_t seed, uint64_t* draws) {
  return CounterRandom(seed, RandomUse::kTest).Below((*draws)++, 2) == 1;
}

}  // namespace

class SimulatedDisk::OpenFile : public Disk::File {
 public:
  OpenFile(SimulatedDisk* disk, std::shared_ptr<Node> node) : disk_(disk), node_(std::move(node)) {}

  absl::Status Append(const void* data, size_t bytes) override {
    SOAP_RETURN_IF_ERROR(disk_->Step());
    const uint64_t fits = std::min<uint64_t>(bytes, disk_->room_ - disk_->used_);
    node_->data.append(static_cast<const char*>(data), fits);
    disk_->used_ += fits;
    if (fits == bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError("the disk is full");
  }
  absl::Status Sync() override {
    SOAP_RETURN_IF_ERROR(disk_->Step());
    if (disk_->mutant_ != DiskMutant::kFilesNotSynced) node_->synced = node_->data.size();
    return absl::OkStatus();
  }

 private:
  SimulatedDisk* disk_;
  std::shared_ptr<Node> node_;
};

SimulatedDisk::SimulatedDisk(DiskMutant mutant) : mutant_(mutant) { root_->folder = true; }

absl::Status SimulatedDisk::Step() {
  if (steps_left_ == 0) return absl::UnavailableError("the machine has ended");
  if (steps_left_.has_value()) --*steps_left_;
  ++steps_;
  return absl::OkStatus();
}

std::shared_ptr<SimulatedDisk::Node> SimulatedDisk::Find(const std::string& path) const {
  std::shared_ptr<Node> node = root_;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(path, '/'))) {
    if (name.empty()) continue;
    const auto entry = node->entries.find(name);
    if (entry == node->entries.end()) return nullptr;
    node = entry->second;
  }
  return node;
}

void SimulatedDisk::Apply(const Change& change, Nodes* entries) {
  for (const auto& [name, node] : change) {
    entries->erase(name);
    if (node != nullptr) entries->emplace(name, node);
  }
}

void SimulatedDisk::Make(const std::string& folder, Change change) {
  const std::shared_ptr<Node> node = Find(folder);
  Apply(change, &node->entries);
  node->changes.push_back(std::move(change));
}

void SimulatedDisk::Restart(uint64_t seed) {
  uint64_t draws = 0;
  Lose(root_.get(), &draws, seed);
  steps_left_.reset();
}

void SimulatedDisk::Lose(Node* node, uint64_t* draws, uint64_t seed) {
  if (!node->folder) {
    size_t size = node->synced;
    for (size_t at = node->synced; at < node->data.size(); at += kSector) {
      const size_t end = std::min(at + kSector, node->data.size());
      const bool is_there = Draw(seed, draws);
      if (!is_there) std::fill(node->data.begin() + at, node->data.begin() + end, '\0');
      if (is_there || Draw(seed, draws)) size = end;
    }
    node->data.resize(size);
    node->synced = size;
    return;
  }
  for (const Change& change : node->changes) {
    if (Draw(seed, draws)) Apply(change, &node->kept);
  }
  node->changes.clear();
  node->entries = node->kept;
  for (const auto& [name, entry] : node->entries) Lose(entry.get(), draws, seed);
}

std::string* SimulatedDisk::Contents(const std::string& path) {
  const std::shared_ptr<Node> node = Find(path);
  return node == nullptr ? nullptr : &node->data;
}

std::vector<std::string> SimulatedDisk::Paths() const {
  std::vector<std::string> paths;
  const std::function<void(const Node&, const std::string&)> add = [&](const Node& node,
                                                                       const std::string& prefix) {
    for (const auto& [name, entry] : node.entries) {
      paths.push_back(prefix + name);
      add(*entry, absl::StrCat(prefix, name, "/"));
    }
  };
  add(*root_, "");
  return paths;
}

absl::StatusOr<std::unique_ptr<Disk::File>> SimulatedDisk::Create(const std::string& path) {
  SOAP_RETURN_IF_ERROR(Step());
  const auto [folder, name] = FolderAndName(path);
  if (Find(folder) == nullptr) return NothingAt(path);
  auto node = std::make_shared<Node>();
  Make(folder, {{name, node}});
  return std::make_unique<OpenFile>(this, std::move(node));
}

absl::Status SimulatedDisk::MakeFolder(const std::string& path) {
  SOAP_RETURN_IF_ERROR(Step());
  if (Find(path) != nullptr) return absl::OkStatus();
  const auto [folder, name] = FolderAndName(path);
  if (Find(folder) == nullptr) return NothingAt(folder);
  auto node = std::make_shared<Node>();
  node->folder = true;
  Make(folder, {{name, std::move(node)}});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::SyncFolder(const std::string& path) {
  SOAP_RETURN_IF_ERROR(Step());
  const std::shared_ptr<Node> node = Find(path);
  if (node == nullptr) return NothingAt(path);
  if (mutant_ == DiskMutant::kFoldersNotSynced) return absl::OkStatus();
  node->kept = node->entries;
  node->changes.clear();
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Rename(const std::string& from, const std::string& to) {
  SOAP_RETURN_IF_ERROR(Step());
  const std::shared_ptr<Node> node = Find(from);
  if (node == nullptr) return NothingAt(from);
  Make(FolderAndName(from).first,
       {{FolderAndName(from).second, nullptr}, {FolderAndName(to).second, node}});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Remove(const std::string& path) {
  SOAP_RETURN_IF_ERROR(Step());
  if (Find(path) == nullptr) return absl::OkStatus();
  Make(FolderAndName(path).first, {{FolderAndName(path).second, nullptr}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimulatedDisk::List(const std::string& folder) {
  const std::shared_ptr<Node> node = Find(folder);
  if (node == nullptr) return NothingAt(folder);
  std::vector<std::string> names;
  for (const auto& [name, entry] : node->entries) names.push_back(name);
  return names;
}

absl::StatusOr<uint64_t> SimulatedDisk::SizeOf(const std::string& path) {
  const std::shared_ptr<Node> node = Find(path);
  if (node == nullptr) return NothingAt(path);
  return node->data.size();
}

absl::Status SimulatedDisk::Read(const std::string& path, uint64_t offset, void* data,
                                 size_t bytes) {
  const std::shared_ptr<Node> node = Find(path);
  if (node == nullptr) return NothingAt(path);
  if (offset > node->data.size() || bytes > node->data.size() - offset) {
    return absl::OutOfRangeError(absl::StrCat(path, ": it ends at byte ", node->data.size()));
  }
  std::memcpy(data, node->data.data() + offset, bytes);
  return absl::OkStatus();
}

}  // namespace soapstone::checkpoint
