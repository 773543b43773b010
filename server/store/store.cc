#include "server/store/store.h"

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"

namespace soapstone::server {

Store::Store(const TensorStoreOptions& options)
    : tensors_(std::make_shared<TensorStore>(options)),
      params_(static_cast<uint32_t>(options.layout->params().size())),
      checks_(options.checks),
      fault_(options.fault) {
  if (options.layout->tables().empty()) return;
  tables_ = std::make_shared<TableStore>(options);
  first_table_ = Index(options.layout->BucketOfTable(options.shard, 0));
}

std::optional<uint32_t> Store::Apply(BucketId bucket, Clock clock,
                                     const std::vector<Contribution>& parts,
                                     uint32_t micro_batch_count, size_t replicas) {
  KeepOlder(bucket);
  if (fault_ == StoreFault::kDropsUpdates) return std::nullopt;
  if (fault_ == StoreFault::kDoublesUpdates)
    ApplyNow(bucket, clock, parts, micro_batch_count, replicas);
  if (fault_ != StoreFault::kReordersUpdates) {
    return ApplyNow(bucket, clock, parts, micro_batch_count, replicas);
  }
  if (withheld_.size() <= Index(bucket)) withheld_.resize(Index(bucket) + 1);
  Withheld before = std::exchange(withheld_[Index(bucket)], {clock, parts});
  if (before.parts.empty()) return std::nullopt;
  withheld_[Index(bucket)] = {};
  ApplyNow(bucket, clock, parts, micro_batch_count, replicas);
  return ApplyNow(bucket, before.clock, before.parts, micro_batch_count, replicas);
}

std::optional<uint32_t> Store::ApplyNow(BucketId bucket, Clock clock,
                                        const std::vector<Contribution>& parts,
                                        uint32_t micro_batch_count, size_t replicas) {
  StampBucket(bucket, clock, parts);
  if (const std::optional<uint32_t> table = TableOf(bucket)) {
    if (tables_->Apply(*table, clock, parts, micro_batch_count)) return std::nullopt;
    return params_ + *table;
  }
  if (tensors_ == nullptr) {
    counts_->Apply(bucket, parts);
    return std::nullopt;
  }
  if (counts_.has_value()) counts_->Add(bucket, parts.size());
  const std::optional<ParamId> odd =
      tensors_->Apply(bucket, clock, parts, micro_batch_count, replicas);
  if (!odd.has_value()) return std::nullopt;
  return Index(*odd);
}

void Store::StampWith(WorkerId worker, MicroBatchRange micro_batches, Clock clock, Stamp* stamp) {
  ++stamp->updates;
  const uint64_t what = uint64_t{Index(worker)} << 32 ^ micro_batches.begin;
  stamp->order = (stamp->order ^ what) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(clock);
  stamp->order ^= stamp->order >> 29;
}

void Store::StampBucket(BucketId bucket, Clock clock, const std::vector<Contribution>& parts) {
  if (stamps_.size() <= Index(bucket)) stamps_.resize(Index(bucket) + 1);
  for (const Contribution& part : parts) {
    StampWith(part.worker, part.micro_batches, clock, &stamps_[Index(bucket)]);
  }
}

uint64_t Store::Version() const {
  uint64_t all = 0;
  for (const Stamp& stamp : stamps_) all += stamp.updates;
  return all;
}

void Store::AddPart(const Buffers& part, Buffers* sum) {
  for (size_t i = 0; i < sum->size(); ++i) {
    const Buffer before = (*sum)[i];
    const BufferPool::Block block = joined_.Take(before.size());
    if (tensors_ == nullptr) {  // counts
      const CountedPart joined = Join(CountedPartOf(before), CountedPartOf(part[i]));
      std::memcpy(block.data, &joined, std::min(before.size(), sizeof(joined)));
    } else {
      const absl::Span<const float> x = before.floats(), y = part[i].floats();
      const absl::Span<float> to = block.floats();
      for (size_t e = 0; e < to.size(); ++e) to[e] = x[e] + y[e];
    }
    (*sum)[i] = block.View();
  }
}

Buffers Store::Gather(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                      uint32_t micro_batch_count) {
  StampBucket(bucket, clock, parts);
  if (tensors_ != nullptr) {
    if (counts_.has_value()) counts_->Add(bucket, parts.size());
    return tensors_->SumOf(bucket, parts, micro_batch_count);
  }
  const int64_t before = counts_->buckets()[Index(bucket)].sum;
  counts_->Apply(bucket, parts);
  const int64_t delta = counts_->buckets()[Index(bucket)].sum - before;
  return {Buffer::CopyOf(&delta, sizeof(delta))};
}

void Store::Load(Buffers values) {
  if (tensors_ != nullptr) tensors_->Load(std::move(values));
}

Store::Answer Store::ReadFor(WorkerId worker, const Buffers& keys, bool final) {
  Answer answer = {tensors_ != nullptr ? tensors_->ReadFor(worker) : Buffers(), Version()};
  FrameSums sums;
  if (checks_) tensors_->AddSums(&sums);
  const bool older = Misreads(final, StoreFault::kAnswersOlder, StoreFault::kFinalOlder);
  const bool content = Misreads(final, StoreFault::kOlderContent, StoreFault::kFinalContent);
  if (older) {
    answer = older_;
    sums = older_sums_;
  }
  if (content) answer.values = older_.values;
  if (tables_ != nullptr) {
    Buffers frames = tables_->Read(keys, &sums);
    if (content) PutOlderRows(keys, &frames);
    for (Buffer& rows : frames) answer.values.push_back(std::move(rows));
  }
  if (checks_) answer.checksum = sums.value();
  return answer;
}

Store::Answer Store::ReadToSave(BucketId bucket) {
  Answer answer = {.version = Version()};
  FrameSums sums;
  const std::optional<uint32_t> table = TableOf(bucket);
  if (table.has_value()) {
    answer.values = tables_->ReadAll(*table, &sums);
  } else {
    answer.values = ReadBucket(bucket);
    if (checks_) tensors_->AddSums(bucket, &sums);
  }
  if (checks_) answer.checksum = sums.value();
  if (fault_ != StoreFault::kSavesOlder || Version() == 0) return answer;
  if (table.has_value()) {
    answer.values = older_rows_[*table];
  } else {
    answer.values = tensors_->PartOf(bucket, older_.values);
  }
  return answer;
}

void Store::KeepOlder(BucketId bucket) {
  if (fault_ != StoreFault::kSavesOlder && fault_ != StoreFault::kAnswersOlder &&
      fault_ != StoreFault::kOlderContent && fault_ != StoreFault::kFinalOlder &&
      fault_ != StoreFault::kFinalContent) {
    return;
  }
  older_ = {tensors_ != nullptr ? tensors_->Read() : Buffers(), Version()};
  older_sums_ = {};
  if (checks_) tensors_->AddSums(&older_sums_);
  const std::optional<uint32_t> table = TableOf(bucket);
  if (!table.has_value()) return;
  if (older_rows_.size() <= *table) older_rows_.resize(*table + 1);
  older_rows_[*table] = tables_->ReadAll(*table);
}

// Rows that were there before the last update, as they were then.
void Store::PutOlderRows(const Buffers& keys, Buffers* rows) const {
  for (size_t t = 0; t < std::min(keys.size(), older_rows_.size()); ++t) {
    if (older_rows_[t].empty() || (*rows)[t].size() == 0) continue;
    std::vector<uint64_t> wanted_scratch, known_scratch;
    const absl::Span<const uint64_t> wanted = KeysOf(keys[t], &wanted_scratch);
    const absl::Span<const uint64_t> known = KeysOf(older_rows_[t][0], &known_scratch);
    const size_t row = (*rows)[t].size() / wanted.size();
    std::vector<std::byte> frame((*rows)[t].data(), (*rows)[t].data() + (*rows)[t].size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto at = std::lower_bound(known.begin(), known.end(), wanted[i]);
      if (at == known.end() || *at != wanted[i]) continue;
      const auto from = static_cast<size_t>(at - known.begin());
      std::memcpy(&frame[i * row], older_rows_[t][1].data() + from * row, row);
    }
    (*rows)[t] = Buffer::CopyOf(frame.data(), frame.size());
  }
}

double Store::MassOf(Clock clock, const Contribution& part) const {
  return tensors_ != nullptr ? tensors_->MassOf(clock, part) : 1;
}

Buffers Store::Read() const {
  Buffers values = tensors_ != nullptr ? tensors_->Read() : Buffers();
  if (tables_ == nullptr) return values;
  for (Buffer& frame : tables_->ReadAll()) values.push_back(std::move(frame));
  return values;
}

std::shared_ptr<TableCapture> Store::CaptureTables() const {
  if (tables_ == nullptr) return nullptr;
  std::shared_ptr<TableCapture> capture = tables_->Capture();
  TableCapture* const taken = capture.get();
  return {taken,
          [capture = std::move(capture), rows = tables_](TableCapture* done) { done->End(); }};
}

Buffers Store::ReadBucket(BucketId bucket) const {
  if (const std::optional<uint32_t> table = TableOf(bucket)) return tables_->ReadAll(*table);
  return tensors_ != nullptr ? tensors_->ReadBucket(bucket) : Buffers();
}

void Store::AddTo(Fingerprint* f) const {
  const CountStore* count_store = counts();
  if (count_store == nullptr) return;
  for (const CountStore::Count& count : count_store->buckets()) {
    f->Add(count.applied);
    f->Add(count.sum);
    f->Add(count.order);
  }
}

}  // namespace soapstone::server
