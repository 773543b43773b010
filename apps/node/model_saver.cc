#include "apps/node/model_saver.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/piece_runs.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

// Slices of the gatherer's window, which is what bounds them.
constexpr size_t kValuesMax = size_t{1} << 26;
constexpr uint64_t kTableBlock = uint64_t{16} << 20;
constexpr absl::Duration kSaverLookAgain = absl::Seconds(1);
constexpr size_t kHexDigits = 64;

models::Metadata WithHash(models::Metadata metadata, std::string sha256) {
  metadata.insert(metadata.begin() + std::min<ptrdiff_t>(2, std::ssize(metadata)),
                  {"sha256", std::move(sha256)});
  return metadata;
}

// Of a table "name.keys", before all others, and "name.rows", after them.
std::vector<models::TensorOutline> OutlinesOf(const wire::Layout& layout,
                                              const std::vector<SparseRows>& tables) {
  std::vector<models::TensorOutline> outlines;
  for (size_t t = 0; t < tables.size(); ++t) {
    outlines.push_back({.name = absl::StrCat(layout.tables()[t].name, ".keys"),
                        .shape = {std::ssize(tables[t].keys)},
                        .keys = !tables[t].keys.empty()});
  }
  for (const ParamSpec& param : WholeParams(layout.params())) {
    outlines.push_back({param.name, param.shape});
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    outlines.push_back({.name = absl::StrCat(layout.tables()[t].name, ".rows"),
                        .shape = {std::ssize(tables[t].keys), layout.tables()[t].dim}});
  }
  return outlines;
}

uint64_t KeyBytes(const SparseRows& table) { return table.keys.size() * sizeof(uint64_t); }
uint64_t RowBytes(const SparseRows& table) { return table.rows.size() * sizeof(float); }

}  // namespace

ModelSaver::ModelSaver(ModelSaverOptions options, wire::Outbox* out)
    : options_(std::move(options)),
      gatherer_(options_.layout, server::ModelGatherer::kWindowBytes, options_.self),
      total_bytes_(options_.layout->elements() * sizeof(float)),
      values_(kValuesMax) {
  gatherer_.Start(out);
}

ModelSaver::~ModelSaver() { values_.Close(); }

absl::Status ModelSaver::OnSlices(const wire::Message& message, wire::Outbox* out) {
  return gatherer_.OnSlices(message, out);
}

wire::SlowWork ModelSaver::work() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.done_bytes = done_bytes_.load(kRelaxed) + tables_done_bytes_.load(kRelaxed),
          .total_bytes = total_bytes_ + tables_bytes_.load(kRelaxed)};
}

std::optional<absl::StatusOr<wire::Saved>> ModelSaver::Advance(wire::Outbox* out) {
  if (told_) return std::nullopt;
  if (gatherer_.has_tables() && !thread_.joinable()) {
    thread_ = std::jthread([this, rows = gatherer_.TakeTables()]() mutable {
      Run(server::PutTogether(*options_.layout, std::move(rows)));
    });
  }
  while (std::optional<Buffer> values = gatherer_.TakeNext()) values_.TryPut(*std::move(values));
  const uint64_t done = done_bytes_.load(std::memory_order_acquire);
  if (done > released_bytes_) gatherer_.Release(done - std::exchange(released_bytes_, done), out);
  MutexLock lock(&mutex_);
  if (!sha256_.has_value()) return std::nullopt;
  told_ = true;
  if (!sha256_->ok()) return sha256_->status();
  return wire::Saved{.path = options_.path, .sha256 = **sha256_};
}

void ModelSaver::Run(const std::vector<SparseRows>& tables) {
  absl::StatusOr<std::string> sha256 = Save(tables);
  {
    MutexLock lock(&mutex_);
    sha256_ = std::move(sha256);
  }
  options_.wake();
}

absl::StatusOr<std::string> ModelSaver::Save(const std::vector<SparseRows>& tables) {
  std::unique_ptr<models::SafetensorsWriter> file;
  if (!options_.path.empty()) {
    SOAP_ASSIGN_OR_RETURN(file, models::SafetensorsWriter::Create(
                                    options_.path, OutlinesOf(*options_.layout, tables),
                                    WithHash(options_.metadata, std::string(kHexDigits, '0'))));
  }
  const auto write = [&](const void* data, size_t bytes) {
    return file != nullptr ? file->Append(data, bytes) : absl::OkStatus();
  };
  // Block by block: who waits for a large table sees that it comes forward.
  const auto write_table = [&](const void* data, uint64_t bytes) {
    const auto* at = static_cast<const std::byte*>(data);
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t block = std::min(bytes - done, kTableBlock);
      SOAP_RETURN_IF_ERROR(write(at + done, block));
      done += block;
      tables_done_bytes_.fetch_add(block, std::memory_order_relaxed);
    }
    return absl::OkStatus();
  };
  for (const SparseRows& table : tables) {
    tables_bytes_.fetch_add(KeyBytes(table) + RowBytes(table), std::memory_order_relaxed);
  }
  for (const SparseRows& table : tables) {
    SOAP_RETURN_IF_ERROR(write_table(table.keys.data(), KeyBytes(table)));
  }
  server::ModelHash hash;
  for (uint64_t done = 0; done < total_bytes_;) {
    const std::optional<Buffer> values = values_.Take(SteadyNow() + kSaverLookAgain);
    if (!values.has_value()) {
      if (values_.closed()) return absl::CancelledError("the job ended before the model was saved");
      continue;
    }
    hash.Add(*values);
    SOAP_RETURN_IF_ERROR(write(values->data(), values->size()));
    done += values->size();
    done_bytes_.store(done, std::memory_order_release);
    options_.wake();
  }
  for (const SparseRows& table : tables) {
    SOAP_RETURN_IF_ERROR(write_table(table.rows.data(), RowBytes(table)));
  }
  const std::string sha256 = hash.Finish(tables);
  if (file != nullptr) SOAP_RETURN_IF_ERROR(file->Finish(WithHash(options_.metadata, sha256)));
  return sha256;
}

}  // namespace soapstone::apps
