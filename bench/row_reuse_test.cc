// Whether a row that a worker pulls again is still what it pulled before: what a cache of rows, or
// a reply "not modified", could save (docs/decisions/013-rows-of-the-whole-batch.md). The models,
// batches and workers of jobs, keys by Zipf's law, rows' versions by who pushes them.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/zipf.h"
#include "gtest/gtest.h"
#include "models/data/sampler.h"
#include "models/tables/sparse_model.h"

namespace soapstone::bench {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint64_t kReuseBatch = 256;  // samples of all workers
constexpr Clock kClocks = 60;
constexpr Clock kRecent = 2;  // as ssp:s=2 would allow for

struct Reuse {
  uint64_t pulled = 0;
  uint64_t before = 0;         // of them, the same worker had pulled the row before
  uint64_t recent = 0;         // of those, at most kRecent clocks ago
  uint64_t unchanged = 0;      // of those, nobody has pushed it since
  uint64_t only_by_own = 0;    // of those, nobody else has
  uint64_t pushed_by_own = 0;  // of pulled: the puller pushes it in the same step
};

std::string Triples() {
  Zipf rows(5'000, 1.1, 1), columns(5'000, 1.1, 2);
  std::string text;
  for (int i = 0; i < 30'000; ++i) absl::StrAppend(&text, rows.Draw(), " ", columns.Draw(), " 3\n");
  return text;
}

std::string Words() {
  Zipf words(2'000, 1.1, 3);
  std::string text;
  for (int i = 0; i < 30'000; ++i) {
    std::string word;
    for (uint64_t rank = words.Draw() + 1; rank > 0; rank /= 26) {
      word += static_cast<char>('a' + rank % 26);
    }
    absl::StrAppend(&text, word, " ");
  }
  return text;
}

std::shared_ptr<const models::SparseModel> ModelOn(const std::string& spec,
                                                   const std::string& format,
                                                   const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("soapstone_reuse_", getpid());
  std::ofstream(path) << text;
  auto model = models::MakeSparseModel(spec, {.format = format, .path = path, .seed = 1}, 0);
  std::filesystem::remove(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// One job: clock after clock the workers pull what `whole_batch` (bsp) or their own samples need,
// then push what they touched.
class Job {
 public:
  Job(std::shared_ptr<const models::SparseModel> model, bool whole_batch)
      : model_(std::move(model)),
        whole_batch_(whole_batch),
        tables_(model_->tables().size()),
        sampler_(1, model_->data().train.size(), kReuseBatch) {}

  Reuse Run() {
    for (Clock clock = 0; clock < kClocks; ++clock) {
      std::vector<std::vector<models::RowBlock>> rows;
      for (uint32_t w = 0; w < kWorkers; ++w) rows.push_back(Pull(w, clock));
      for (uint32_t w = 0; w < kWorkers; ++w) Push(w, clock, &rows[w]);
    }
    return reuse_;
  }

 private:
  struct Row {
    std::vector<uint64_t> pushes = std::vector<uint64_t>(kWorkers);    // by each
    std::vector<uint64_t> seen_all = std::vector<uint64_t>(kWorkers);  // pushes + 1 at its pull
    std::vector<uint64_t> seen_own = std::vector<uint64_t>(kWorkers);  // of its own
    std::vector<Clock> pulled_at = std::vector<Clock>(kWorkers, -1);
    uint64_t all = 0;
  };

  models::SparseBatch BatchOf(Clock clock, uint32_t from, uint32_t to) {
    const uint64_t samples = sampler_.BatchSamples(clock);
    return {.clock = clock,
            .samples = sampler_.Samples(clock, samples * from / kWorkers, samples * to / kWorkers)};
  }

  std::vector<models::RowBlock> Pull(uint32_t worker, Clock clock) {
    std::vector<std::vector<uint64_t>> keys(tables_.size());
    model_->AddKeys(whole_batch_ ? BatchOf(clock, 0, kWorkers) : BatchOf(clock, worker, worker + 1),
                    &keys);
    std::vector<models::RowBlock> blocks;
    for (size_t t = 0; t < keys.size(); ++t) {
      std::sort(keys[t].begin(), keys[t].end());
      keys[t].erase(std::unique(keys[t].begin(), keys[t].end()), keys[t].end());
      for (const uint64_t key : keys[t]) Count(worker, clock, &tables_[t][key]);
      const uint32_t dim = model_->tables()[t].dim;
      SparseRows rows = {.keys = std::move(keys[t])};
      rows.rows.assign(rows.keys.size() * dim, 0.01F);
      blocks.emplace_back(std::move(rows), dim);
    }
    return blocks;
  }

  void Count(uint32_t worker, Clock clock, Row* row) {
    ++reuse_.pulled;
    const Clock before = std::exchange(row->pulled_at[worker], clock);
    if (row->seen_all[worker] > 0) {
      const uint64_t all = row->all + 1 - row->seen_all[worker];
      const uint64_t own = row->pushes[worker] - row->seen_own[worker];
      ++reuse_.before;
      if (clock - before <= kRecent) ++reuse_.recent;
      if (all == 0) ++reuse_.unchanged;
      if (all == own) ++reuse_.only_by_own;
    }
    row->seen_all[worker] = row->all + 1;
    row->seen_own[worker] = row->pushes[worker];
  }

  void Push(uint32_t worker, Clock clock, std::vector<models::RowBlock>* rows) {
    model_->Run(BatchOf(clock, worker, worker + 1), rows);
    for (size_t t = 0; t < rows->size(); ++t) {
      for (const uint64_t key : (*rows)[t].TakeGradients().keys) {
        Row& row = tables_[t][key];
        ++row.all;
        ++row.pushes[worker];
        if (row.pulled_at[worker] == clock) ++reuse_.pushed_by_own;
      }
    }
  }

  std::shared_ptr<const models::SparseModel> model_;
  const bool whole_batch_;
  std::vector<std::unordered_map<uint64_t, Row>> tables_;
  models::Sampler sampler_;
  Reuse reuse_;
};

class RowReuseTest : public testing::TestWithParam<bool> {
 protected:
  static Reuse Measure(const char* name, std::shared_ptr<const models::SparseModel> model) {
    const Reuse reuse = Job(std::move(model), GetParam()).Run();
    std::printf(
        "%s, %s: %llu rows pulled, %llu by who had pulled them before; of those %llu within 2 "
        "clocks, %llu not changed since, %llu changed by their puller alone; %llu pushed by their "
        "puller\n",
        name, GetParam() ? "rows of the whole batch" : "rows of its own samples",
        static_cast<unsigned long long>(reuse.pulled),
        static_cast<unsigned long long>(reuse.before),
        static_cast<unsigned long long>(reuse.recent),
        static_cast<unsigned long long>(reuse.unchanged),
        static_cast<unsigned long long>(reuse.only_by_own),
        static_cast<unsigned long long>(reuse.pushed_by_own));
    return reuse;
  }
};

// If this ever fails, decision 13 is to be thought of again.
TEST_P(RowReuseTest, NoRowThatIsPulledAgainIsWhatItWas) {
  for (const bool words : {false, true}) {
    const Reuse reuse =
        words ? Measure("skip-gram", ModelOn("skip_gram:dim=4,window=2,negatives=5,min_count=1",
                                             "text", Words()))
              : Measure("matrix factorisation",
                        ModelOn("matrix_factorisation:dim=4", "triples", Triples()));
    EXPECT_GT(reuse.before, reuse.pulled / 3);
    EXPECT_EQ(reuse.unchanged, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Pulls, RowReuseTest, testing::Bool(), [](const auto& info) {
  return info.param ? "OfTheWholeBatch" : "OfItsOwnSamples";
});

}  // namespace
}  // namespace soapstone::bench
