#include "server/store/table_capture.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace soapstone::server {
namespace {

constexpr size_t kBytesAtOnce = size_t{64} << 10;  // that the other thread may wait for
constexpr uint64_t kNodeBytes = 128;               // of the map, about

}  // namespace

TableCapture::TableCapture(std::vector<Table> tables, uint64_t kept_bytes_max)
    : tables_(std::move(tables)), kept_bytes_max_(kept_bytes_max), readings_(tables_.size()) {}

uint64_t TableCapture::BytesOf(const Table& table) const {
  return table.form.floats() * sizeof(float) + kNodeBytes;
}

void TableCapture::Keep(uint32_t table, absl::Span<const uint32_t> rows) {
  const Table& captured = tables_[table];
  const MutexLock lock(&mutex_);
  if (ended_) return;
  Reading& reading = readings_[table];
  if (reading.next == captured.rows()) return;
  for (const uint32_t row : rows) {
    if (row < reading.next || row >= captured.rows()) continue;
    const auto [at, is_new] = reading.kept.try_emplace(row);
    if (!is_new) continue;
    const float* floats = captured.places.floats(row);
    at->second.key = captured.places.key(row);
    if (captured.form.steps) at->second.steps = captured.places.steps(row);
    at->second.floats.assign(floats, floats + captured.form.floats());
    kept_bytes_ += BytesOf(captured);
  }
}

void TableCapture::WaitForRoom(SteadyTime deadline) {
  const MutexLock lock(&mutex_);
  while (!ended_ && kept_bytes_ > kept_bytes_max_) {
    if (!room_.Wait(&mutex_, deadline)) Clear();
  }
}

void TableCapture::TakeRow(const Table& table, uint32_t row, Reading* reading, size_t to,
                           RowBlock* block) {
  const size_t dim = table.form.dim;
  const auto kept = reading->kept.begin();
  const bool is_kept = kept != reading->kept.end() && kept->first == row;
  const float* from = is_kept ? kept->second.floats.data() : table.places.floats(row);
  block->keys[to] = is_kept ? kept->second.key : table.places.key(row);
  if (table.form.steps) {
    block->steps[to] = is_kept ? kept->second.steps : table.places.steps(row);
  }
  if (table.form.used) block->used[to] = (table.used[row / 64] >> (row % 64)) & 1;
  for (std::vector<float>* into : {&block->values, &block->first, &block->second}) {
    if (into->empty()) continue;
    std::copy_n(from, dim, into->begin() + static_cast<ptrdiff_t>(to * dim));
    from += dim;
  }
  if (!is_kept) return;
  reading->kept.erase(kept);
  kept_bytes_ -= BytesOf(table);
}

absl::Status TableCapture::Take(uint32_t table, size_t count, RowBlock* block) {
  const Table& captured = tables_[table];
  block->Resize(count, captured.form);
  const size_t at_once = std::max<size_t>(1, kBytesAtOnce / captured.form.bytes());
  for (size_t done = 0; done < count;) {
    const MutexLock lock(&mutex_);
    if (ended_) {
      return absl::ResourceExhaustedError("rows change faster than they are written down");
    }
    Reading& reading = readings_[table];
    const size_t end = std::min(count, done + at_once);
    CHECK_LE(end - done, captured.rows() - reading.next);
    for (; done < end; ++done) TakeRow(captured, reading.next++, &reading, done, block);
    room_.Notify();
  }
  return absl::OkStatus();
}

void TableCapture::Clear() {
  ended_ = true;
  readings_.assign(tables_.size(), {});
  kept_bytes_ = 0;
}

void TableCapture::End() {
  const MutexLock lock(&mutex_);
  Clear();
  room_.Notify();
}

bool TableCapture::ended() const {
  const MutexLock lock(&mutex_);
  return ended_;
}

}  // namespace soapstone::server
