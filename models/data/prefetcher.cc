#include "models/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "base/steady_clock.h"

namespace soapstone::models {
namespace {

constexpr size_t kSpareMax = 4;

}  // namespace

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> data, uint64_t seed, uint64_t batch,
                       uint64_t samples_max)
    : data_(std::move(data)),
      samples_max_(samples_max),
      batches_(data_.get(), seed, batch),
      thread_([this] { Work(); }) {}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  wanted_.Notify();
  thread_.join();
}

void Prefetcher::Expect(const BatchPart& part) {
  {
    MutexLock lock(&mutex_);
    uint64_t samples = part.end - part.begin;
    for (const Item& item : items_) samples += item.part.end - item.part.begin;
    if (samples > samples_max_ || Find(part) != items_.end()) return;
    items_.push_back({.part = part});
  }
  wanted_.Notify();
}

void Prefetcher::Take(const BatchPart& part, MiniBatch* feed) {
  MutexLock lock(&mutex_);
  Forget(part.clock);
  auto item = Find(part);
  if (item == items_.end()) {
    ++misses_;
    items_.push_front({.part = part});
    item = items_.begin();
    wanted_.Notify();
  } else {
    ++hits_;
    if (item->progress == Progress::kWaiting) items_.splice(items_.begin(), items_, item);
  }
  while (item->progress != Progress::kMade) made_.Wait(&mutex_, SteadyTime::InfiniteFuture());
  std::swap(*feed, item->feed);
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(item->feed));
  items_.erase(item);
}

Prefetcher::Items::iterator Prefetcher::Find(const BatchPart& part) {
  return std::find_if(items_.begin(), items_.end(),
                      [&](const Item& item) { return item.part == part; });
}

Prefetcher::Items::iterator Prefetcher::NextToMake() {
  return std::find_if(items_.begin(), items_.end(),
                      [](const Item& item) { return item.progress == Progress::kWaiting; });
}

void Prefetcher::Forget(Clock before) {
  items_.remove_if([&](const Item& item) {
    return item.part.clock < before && item.progress != Progress::kBeingMade;
  });
}

Prefetcher::Item* Prefetcher::WaitForWork(MiniBatch* feed) {
  MutexLock lock(&mutex_);
  while (!stop_) {
    const auto item = NextToMake();
    if (item == items_.end()) {
      wanted_.Wait(&mutex_, SteadyTime::InfiniteFuture());
      continue;
    }
    if (!spare_.empty()) {
      *feed = std::move(spare_.back());
      spare_.pop_back();
    }
    item->progress = Progress::kBeingMade;  // from now on the other thread leaves it alone
    return &*item;
  }
  return nullptr;
}

void Prefetcher::Work() {
  while (true) {
    MiniBatch feed;
    Item* item = WaitForWork(&feed);
    if (item == nullptr) return;
    batches_.Fill(item->part, &feed);
    MutexLock lock(&mutex_);
    item->feed = std::move(feed);
    item->progress = Progress::kMade;
    made_.Notify();
  }
}

}  // namespace soapstone::models
