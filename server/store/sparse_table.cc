#include "server/store/sparse_table.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/finite.h"
#include "base/random.h"
#include "glog/logging.h"

namespace soapstone::server {
namespace {

constexpr uint64_t kRowsMost = uint64_t{1} << 31;

}  // namespace

SparseTable::SparseTable(const SparseTableOptions& options)
    : options_(options),
      init_{.kind = options.init,
            .scale = options.scale,
            .seed = options.seed,
            .table = options.table},
      optimizer_(options.optimizer, options.dim),
      rows_({.floats = optimizer_.row_floats(),
             .steps = optimizer_.counts_steps(),
             .used = options.rows_max > 0,
             .sums = options.checks}),
      index_(CounterRandom(options.seed, RandomUse::kRowIndex).Bits(options.table)) {
  CHECK_LE(options.dim, kDimMax);
  CHECK_LE(options.rows_limit, kRowsMost);
  CHECK_LE(options.rows_max, kRowsMost);
}

void SparseTable::Find(absl::Span<const uint64_t> keys, Group* group) {
  group->keys = keys;
  if (index_.empty()) {
    std::fill_n(group->rows.begin(), keys.size(), KeyIndex::kNone);
    for (size_t i = 0; i < keys.size(); ++i) group->hashes[i] = index_.HashOf(keys[i]);
    return;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    group->hashes[i] = index_.HashOf(keys[i]);
    index_.PrefetchSlots(group->hashes[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) index_.PrefetchRows(rows_, group->hashes[i]);
  for (size_t i = 0; i < keys.size(); ++i) {
    group->rows[i] = index_.Find(rows_, group->hashes[i], keys[i]);
    if (group->rows[i] != KeyIndex::kNone) Use(group->rows[i]);
  }
}

void SparseTable::Read(absl::Span<const uint64_t> keys, absl::Span<float> rows, FrameSums* sums) {
  const size_t dim = options_.dim;
  CHECK_EQ(rows.size(), keys.size() * dim);
  Group group;
  for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
    Find(keys.subspan(begin, kGroup), &group);
    for (size_t i = 0; i < group.keys.size(); ++i) {
      const absl::Span<float> out = rows.subspan((begin + i) * dim, dim);
      if (group.rows[i] == KeyIndex::kNone) {
        compute::InitRow(init_, group.keys[i], out);
      } else {
        std::copy_n(rows_.floats(group.rows[i]), dim, out.begin());
      }
      if (sums == nullptr || !options_.checks) continue;
      const bool kept = group.rows[i] != KeyIndex::kNone;
      sums->Add(kept ? rows_.sum(group.rows[i]) : SumOf(out.data()));
    }
  }
}

absl::Status SparseTable::Apply(const compute::Update& update, absl::Span<const uint64_t> keys,
                                absl::Span<const float> gradients) {
  CHECK_EQ(gradients.size(), keys.size() * options_.dim);
  // A group has to fit.
  const size_t at_once =
      options_.rows_max == 0 ? kGroup : std::min<uint64_t>(kGroup, options_.rows_max);
  for (size_t begin = 0; begin < keys.size(); begin += at_once) {
    if (begin > 0) CHECK_LT(keys[begin - 1], keys[begin]);
    absl::Status applied =
        ApplyGroup(update, keys.subspan(begin, at_once), gradients.data() + begin * options_.dim);
    if (!applied.ok()) return applied;
  }
  return absl::OkStatus();
}

absl::Status SparseTable::ApplyGroup(const compute::Update& update, absl::Span<const uint64_t> keys,
                                     const float* gradients) {
  Group group;
  Find(keys, &group);
  if (capture_ != nullptr) {
    capture_->Keep(options_.table, absl::MakeConstSpan(group.rows).first(keys.size()));
  }
  std::array<float*, kGroup> rows;
  std::array<uint64_t, kGroup> steps;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) CHECK_LT(keys[i - 1], keys[i]);
    if (group.rows[i] == KeyIndex::kNone) {
      if (absl::Status created = Create(i, &group); !created.ok()) return created;
    }
    rows[i] = rows_.floats(group.rows[i]);
  }
  if (optimizer_.counts_steps()) {
    for (size_t i = 0; i < keys.size(); ++i) steps[i] = ++rows_.steps(group.rows[i]);
  }
  all_finite_ &=
      optimizer_.Apply(update, {rows.data(), keys.size()}, {steps.data(), keys.size()}, gradients);
  for (size_t i = 0; options_.checks && i < keys.size(); ++i) {
    rows_.sum(group.rows[i]) = SumOf(rows[i]);
  }
  return absl::OkStatus();
}

absl::Status SparseTable::Create(size_t i, Group* group) {
  const uint64_t key = group->keys[i];
  uint32_t row = rows_.size();
  const bool evicts = options_.rows_max > 0 && row >= options_.rows_max;
  if (options_.rows_max == 0 && row >= options_.rows_limit) {
    return absl::ResourceExhaustedError(absl::StrCat("table ", options_.table, " has ", row,
                                                     " rows, its limit, and none to give up"));
  }
  if (absl::Status room = index_.MakeRoom(rows_, group->hashes[i]); !room.ok()) return room;
  if (evicts) {
    row = Victim(*group);
    if (capture_ != nullptr) capture_->Keep(options_.table, {&row, 1});
    index_.Erase(index_.HashOf(rows_.key(row)), row);
    rows_.set_key(row, key);
  } else if (!rows_.Append(key)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for more than ", row, " rows of table ", options_.table));
  }
  index_.Insert(group->hashes[i], row);
  group->rows[i] = row;
  float* const floats = rows_.floats(row);
  compute::InitRow(init_, key, {floats, options_.dim});
  std::fill(floats + options_.dim, floats + optimizer_.row_floats(), 0.0f);
  if (optimizer_.counts_steps()) rows_.steps(row) = 0;
  if (options_.checks) rows_.sum(row) = SumOf(floats);
  Use(row);
  return absl::OkStatus();
}

// The clock of second chances (Corbato 1968). A turn clears every row's bit, so the hand stops in
// the second at the latest; the group's own rows are passed over, and are not all there are.
uint32_t SparseTable::Victim(const Group& group) {
  const auto* const end = group.rows.begin() + group.keys.size();
  for (;;) {
    if (hand_ >= rows_.size()) hand_ = 0;
    uint64_t& used = rows_.used_word(hand_);
    const uint32_t begin = hand_ / 64 * 64;
    const uint64_t ahead = ~uint64_t{0} << (hand_ % 64);
    const uint64_t unused = ~used & ahead;
    const uint32_t stop = unused == 0 ? begin + 64 : begin + std::countr_zero(unused);
    used &= unused == 0 ? ~ahead : ~ahead | (~uint64_t{0} << (stop % 64));
    hand_ = stop;
    if (unused == 0 || stop >= rows_.size()) continue;
    hand_ = stop + 1;
    if (std::find(group.rows.begin(), end, stop) == end) return stop;
  }
}

RowForm SparseTable::form() const {
  const compute::Moments moments = compute::MomentsOf(options_.optimizer.kind);
  return {.dim = options_.dim,
          .first = moments.first,
          .second = moments.second,
          .steps = optimizer_.counts_steps(),
          .used = options_.rows_max > 0};
}

TableCapture::Table SparseTable::Capture() const {
  TableCapture::Table captured = {.places = rows_, .form = form(), .hand = {}, .used = {}};
  if (options_.rows_max == 0) return captured;
  captured.hand = hand_;
  for (uint32_t row = 0; row < rows_.size(); row += 64) {
    captured.used.push_back(rows_.used_word(row));
  }
  return captured;
}

absl::Status SparseTable::Restore(const RowBlock& rows) {
  CHECK(rows.Fits(form()));
  const uint64_t most = options_.rows_max > 0 ? options_.rows_max : options_.rows_limit;
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const uint64_t key = rows.keys[i];
    const uint64_t hash = index_.HashOf(key);
    if (!index_.empty() && index_.Find(rows_, hash, key) != KeyIndex::kNone) {
      return absl::InvalidArgumentError(absl::StrCat("key ", key, " is there twice"));
    }
    const uint32_t row = rows_.size();
    if (row >= most) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has more than ", most,
                       " rows for a shard, as many as one may have: go on with more"));
    }
    if (absl::Status room = index_.MakeRoom(rows_, hash); !room.ok()) return room;
    if (!rows_.Append(key)) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for more than ", row, " rows"));
    }
    index_.Insert(hash, row);
    RestoreRow(rows, i, row);
  }
  return absl::OkStatus();
}

void SparseTable::RestoreRow(const RowBlock& rows, size_t i, uint32_t row) {
  float* const floats = rows_.floats(row);
  float* to = floats;
  for (const std::vector<float>* from : {&rows.values, &rows.first, &rows.second}) {
    if (from->empty()) continue;
    to = std::copy_n(from->data() + i * options_.dim, options_.dim, to);
  }
  all_finite_ &= AllFinite({floats, optimizer_.row_floats()});
  if (optimizer_.counts_steps()) rows_.steps(row) = rows.steps[i];
  if (options_.checks) rows_.sum(row) = SumOf(floats);
  if (options_.rows_max > 0 && rows.used[i] != 0) rows_.set_used(row);
}

std::vector<uint64_t> SparseTable::Keys() const {
  std::vector<uint64_t> keys(rows_.size());
  for (uint32_t row = 0; row < rows_.size(); ++row) keys[row] = rows_.key(row);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace soapstone::server
