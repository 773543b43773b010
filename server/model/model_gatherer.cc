#include "server/model/model_gatherer.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::server {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

ModelGatherer::ModelGatherer(std::shared_ptr<const wire::Layout> layout, uint64_t window_bytes,
                             ServerId self)
    : layout_(std::move(layout)),
      window_bytes_(window_bytes),
      self_(self),
      asked_(layout_),
      taken_(layout_),
      asked_for_(layout_->shard_count()),
      awaited_(layout_->shard_count()),
      rows_of_(layout_->tables().size(), std::vector<Buffers>(layout_->shard_count())),
      tables_missing_(layout_->tables().size() * layout_->shard_count()) {
  for (uint32_t k = 0; k < layout_->shard_count(); ++k) {
    asked_for_[k].resize(layout_->bucket_count(ShardId{k}));
    awaited_[k].resize(layout_->bucket_count(ShardId{k}));
  }
}

void ModelGatherer::Start(wire::Outbox* out) {
  for (uint32_t t = 0; t < layout_->tables().size(); ++t) {
    for (uint32_t k = 0; k < layout_->shard_count(); ++k) {
      Ask({ShardId{k}, layout_->BucketOfTable(ShardId{k}, t)}, out);
    }
  }
  AskForMore(out);
}

void ModelGatherer::Ask(Key bucket, wire::Outbox* out) {
  const auto [shard, id] = bucket;
  asked_for_[Index(shard)][Index(id)] = true;
  awaited_[Index(shard)][Index(id)] = true;
  ++awaited_count_;
  wire::Message message;
  message.type = wire::MessageType::kSave;
  message.from = wire::Address::Of(self_);
  message.to = wire::Address::Of(shard);
  message.body = wire::Save{.bucket = id};
  out->Send(std::move(message));
}

void ModelGatherer::AskForMore(wire::Outbox* out) {
  if (!has_tables()) return;
  for (; !asked_.done(); asked_.Advance()) {
    const ModelCursor::Place& place = asked_.place();
    if (asked_for_[Index(place.shard)][Index(place.bucket)]) continue;
    const uint64_t bytes =
        layout_->buckets(place.shard)[Index(place.bucket)].elements() * sizeof(float);
    // What is next is asked for in any case once all before it has been let go of: buckets used in
    // part may fill the window.
    const bool enough = out_bytes_ + bytes > window_bytes_ || awaited_count_ >= kAwaitedMax;
    if ((asked_.passed() > taken_.passed() || held_bytes_ > 0) && enough) return;
    out_bytes_ += bytes;
    Ask({place.shard, place.bucket}, out);
  }
}

absl::Status ModelGatherer::OnSlices(const wire::Message& message, wire::Outbox* out) {
  const uint32_t shard = message.from.index;
  const BucketId id = wire::As<wire::Slices>(message).bucket;
  const uint32_t bucket = Index(id);
  if (message.from.role != wire::Role::kShard || shard >= awaited_.size() ||
      bucket >= awaited_[shard].size() || !awaited_[shard][bucket]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bucket ", bucket, " of ", message.from.ToString(), ", which was not asked for it"));
  }
  if (const auto table = layout_->TableOf(ShardId{shard}, id)) {
    SOAP_RETURN_IF_ERROR(TakeRows(message, *table));
    awaited_[shard][bucket] = false;
    --awaited_count_;
    if (--tables_missing_ == 0) AskForMore(out);
    return absl::OkStatus();
  }
  const std::vector<wire::Slice>& slices = layout_->buckets(ShardId{shard})[bucket].slices;
  if (message.payload.size() != slices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        message.from.ToString(), " sent ", message.payload.size(), " frames of ", slices.size()));
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    const Buffer& buffer = message.payload[i];
    if (buffer.size() == slices[i].elements() * sizeof(float) && buffer.IsFloatAligned()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(message.from.ToString(), ": slice ", i, " has ", buffer.size(), " bytes"));
  }
  awaited_[shard][bucket] = false;
  --awaited_count_;
  here_[{ShardId{shard}, id}] = {message.payload,
                                 layout_->buckets(ShardId{shard})[bucket].elements()};
  return absl::OkStatus();
}

bool ModelGatherer::IsAsWritten(const wire::Message& message) const {
  const auto& body = wire::As<wire::Slices>(message);
  if (body.checksum == 0) return true;
  const auto table = layout_->TableOf(ShardId{message.from.index}, body.bucket);
  if (!table.has_value()) return wire::SumOf(message.payload) == body.checksum;
  const size_t row_bytes = layout_->tables()[*table].dim * sizeof(float);
  return message.payload.size() == 2 &&
         wire::SumOf({message.payload[1]}, {row_bytes}) == body.checksum;
}

std::optional<Buffer> ModelGatherer::TakeNext() {
  if (!has_tables() || taken_.done()) return std::nullopt;
  const ModelCursor::Place place = taken_.place();
  const auto it = here_.find({place.shard, place.bucket});
  if (it == here_.end()) return std::nullopt;
  taken_.Advance();
  Buffer values = it->second.frames[place.index].Slice(place.begin * sizeof(float),
                                                       place.count * sizeof(float));
  it->second.left -= place.count;
  held_bytes_ += values.size();
  if (it->second.left == 0) here_.erase(it);
  return values;
}

void ModelGatherer::Release(uint64_t bytes, wire::Outbox* out) {
  CHECK_LE(bytes, held_bytes_);
  held_bytes_ -= bytes;
  out_bytes_ -= bytes;
  AskForMore(out);
}

absl::Status ModelGatherer::TakeRows(const wire::Message& message, uint32_t table) {
  const size_t dim = layout_->tables()[table].dim;
  const Buffers& frames = message.payload;
  std::vector<uint64_t> scratch;
  if (frames.size() != 2 || frames[0].size() % sizeof(uint64_t) != 0 ||
      !frames[1].IsFloatAligned() ||
      frames[1].size() != frames[0].size() / sizeof(uint64_t) * dim * sizeof(float) ||
      !AscendStrictly(KeysOf(frames[0], &scratch))) {
    return absl::InvalidArgumentError(
        absl::StrCat(message.from.ToString(), ": table ", table, " came as ", frames.size(),
                     " frames, which are not ascending keys and their rows"));
  }
  rows_of_[table][message.from.index] = frames;
  return absl::OkStatus();
}

// A key lives on one shard: nothing is added here.
std::vector<SparseRows> PutTogether(const wire::Layout& layout, ModelGatherer::ShardRows rows) {
  std::vector<SparseRows> tables(rows.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    for (Buffers& frames : rows[t]) {
      SparseRows part;
      std::vector<uint64_t> scratch;
      const absl::Span<const uint64_t> keys = KeysOf(frames[0], &scratch);
      const absl::Span<const float> values = frames[1].floats();
      part.keys.assign(keys.begin(), keys.end());
      part.rows.assign(values.begin(), values.end());
      tables[t] = SumOf(tables[t], part, layout.tables()[t].dim);
      frames.clear();
    }
  }
  return tables;
}

std::string ModelHash::Finish(const std::vector<SparseRows>& tables) {
  for (const SparseRows& table : tables) {
    hash_.Update(table.keys.data(), table.keys.size() * sizeof(uint64_t));
    hash_.Update(table.rows.data(), table.rows.size() * sizeof(float));
  }
  return hash_.HexDigest();
}

std::string HashOfShards(const std::shared_ptr<const wire::Layout>& layout,
                         const std::function<Buffers(ShardId, BucketId)>& read) {
  ModelGatherer gatherer(layout);
  ModelHash hash;
  wire::Outbox out;
  gatherer.Start(&out);
  while (!out.messages.empty()) {
    wire::Outbox more;
    for (const wire::Message& asked : out.messages) {
      wire::Message answer;
      answer.from = asked.to;
      const BucketId bucket = wire::As<wire::Save>(asked).bucket;
      answer.body = wire::Slices{.bucket = bucket};
      answer.payload = read(ShardId{asked.to.index}, bucket);
      const absl::Status taken = gatherer.OnSlices(answer, &more);
      CHECK(taken.ok()) << taken;
    }
    while (const std::optional<Buffer> values = gatherer.TakeNext()) {
      hash.Add(*values);
      gatherer.Release(values->size(), &more);
    }
    out = std::move(more);
  }
  CHECK(gatherer.all_taken());
  return hash.Finish(PutTogether(*layout, gatherer.TakeTables()));
}

}  // namespace soapstone::server
