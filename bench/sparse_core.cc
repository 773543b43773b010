#include "bench/sparse_core.h"

#include <unistd.h>

#include <fstream>

#include "bench/zipf.h"
#include "glog/logging.h"

namespace soapstone::bench {
namespace {

constexpr size_t kGradients = 8;  // sets of them: 2 MB, as if they had just been received

uint64_t ResidentBytes() {
  uint64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double CpuSecondsSince(Nanos began) {
  return static_cast<double>(CpuTimeOf(getpid()) - began) / kSecond;
}

server::SparseTableOptions TableOf(const SparseLoad& load,
                                   const compute::OptimizerSpec& optimizer) {
  return {.dim = load.dim,
          .optimizer = optimizer,
          .init = InitKind::kUniform,
          .scale = 0.01,
          .seed = 1};
}

}  // namespace

std::vector<std::vector<uint64_t>> SparseBatches(const SparseLoad& load, uint32_t measurements) {
  Zipf zipf(load.table_rows, load.exponent, 1);
  std::vector<std::vector<uint64_t>> batches(uint64_t{measurements} * load.batches);
  for (auto& batch : batches) batch = zipf.Batch(load.batch);
  return batches;
}

SparseCore::SparseCore(const SparseLoad& load, const compute::OptimizerSpec& optimizer,
                       const std::vector<std::vector<uint64_t>>& batches)
    : load_(load),
      batches_(batches),
      resident_before_(ResidentBytes()),
      table_(TableOf(load, optimizer)),
      gradients_(kGradients, std::vector<float>(size_t{load.batch} * load.dim, 1e-3f)),
      rows_(size_t{load.batch} * load.dim) {
  const Nanos cpu_began = CpuTimeOf(getpid());
  const Nanos began = Now();
  std::vector<uint64_t> keys;
  // Ascending, which is no order of use: a rank's key is anywhere.
  for (uint64_t key = 0; key < load.table_rows;) {
    keys.clear();
    while (keys.size() < load.batch && key < load.table_rows) keys.push_back(key++);
    const auto gradients = absl::MakeConstSpan(gradients_[0]).first(keys.size() * load.dim);
    CHECK(table_.Apply({.lr = 0.1}, keys, gradients).ok());
  }
  created_ = {.seconds = static_cast<double>(Now() - began) / kSecond,
              .cpu_seconds = CpuSecondsSince(cpu_began),
              .messages = load.table_rows,
              .bytes = load.table_rows * load.dim * sizeof(float)};
}

template <typename Each>
Sample SparseCore::Time(uint32_t measurement, const Each& each) {
  const size_t first = size_t{measurement} * load_.batches;
  CHECK_LE(first + load_.batches, batches_.size());
  const Nanos cpu_began = CpuTimeOf(getpid());
  const Nanos began = Now();
  for (size_t i = 0; i < load_.batches; ++i) each(batches_[first + i], i);
  const uint64_t rows = uint64_t{load_.batches} * load_.batch;
  return {.seconds = static_cast<double>(Now() - began) / kSecond,
          .cpu_seconds = CpuSecondsSince(cpu_began),
          .messages = rows,
          .bytes = rows * load_.dim * sizeof(float)};
}

Sample SparseCore::Apply(uint32_t measurement) {
  return Time(measurement, [this](const std::vector<uint64_t>& keys, size_t i) {
    CHECK(table_.Apply({.lr = 0.1}, keys, gradients_[i % kGradients]).ok());
  });
}

Sample SparseCore::Read(uint32_t measurement) {
  return Time(measurement, [this](const std::vector<uint64_t>& keys, size_t) {
    table_.Read(keys, absl::MakeSpan(rows_));
  });
}

RowMemory SparseCore::Memory() const {
  const auto rows = static_cast<double>(table_.size());
  const compute::Moments moments = compute::MomentsOf(table_.options().optimizer.kind);
  const int arrays = 1 + (moments.first ? 1 : 0) + (moments.second ? 1 : 0);
  return {.counted = static_cast<double>(table_.memory_bytes()) / rows,
          .resident = static_cast<double>(ResidentBytes() - resident_before_) / rows,
          .floats = 4.0 * arrays * load_.dim};
}

}  // namespace soapstone::bench
