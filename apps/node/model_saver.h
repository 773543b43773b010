// ModelSaver: the end of the job on server 0: has the model gathered
// (server/model/model_gatherer.h), and hashes and writes it as it comes, on a thread: the loop that
// brings it has heartbeats to send. The server's shell owns one from kSave on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory/bounded_inbox.h"
#include "base/mutex.h"
#include "models/formats/safetensors_writer.h"
#include "server/model/model_gatherer.h"
#include "wire/layout.h"
#include "wire/message.h"

namespace soapstone::apps {

struct ModelSaverOptions {
  std::shared_ptr<const wire::Layout> layout;
  std::string path;            // empty: it is hashed only
  models::Metadata metadata;   // the hash is added as "sha256"
  std::function<void()> wake;  // makes the loop call Advance; any thread calls it
  ServerId self{0};            // where it is
};

// Memory: what the gatherer has asked for, never a model. The loop's thread calls all.
class ModelSaver {
 public:
  ModelSaver(ModelSaverOptions options, wire::Outbox* out);
  ~ModelSaver();  // gives up what is not finished

  // kSlices of a shard.
  absl::Status OnSlices(const wire::Message& message, wire::Outbox* out);
  bool IsAsWritten(const wire::Message& message) const { return gatherer_.IsAsWritten(message); }
  // Passes on what came, asks for more. The end, once: what was saved, or why it could not be.
  std::optional<absl::StatusOr<wire::Saved>> Advance(wire::Outbox* out);
  // Bytes that are written and hashed: of tensors, and of tables from when their rows are here.
  wire::SlowWork work() const;

 private:
  void Run(const std::vector<SparseRows>& tables);
  absl::StatusOr<std::string> Save(const std::vector<SparseRows>& tables);

  ModelSaverOptions options_;
  server::ModelGatherer gatherer_;
  const uint64_t total_bytes_;
  uint64_t released_bytes_ = 0;
  bool told_ = false;
  BoundedInbox<Buffer> values_;
  std::atomic<uint64_t> done_bytes_{0};
  std::atomic<uint64_t> tables_bytes_{0}, tables_done_bytes_{0};
  mutable Mutex mutex_;
  std::optional<absl::StatusOr<std::string>> sha256_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // from when tables are here
};

}  // namespace soapstone::apps
