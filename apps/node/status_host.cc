#include "apps/node/status_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/loop/node_loop.h"
#include "base/exit_codes.h"
#include "observe/metrics/exposition.h"
#include "observe/status/dashboard.h"

namespace soapstone::apps {
namespace {

constexpr size_t kScreenColumns = 200;

// The same job would come to the same end again.
bool IsToBeMended(int code) {
  return code == kExitInternal || code == kExitBroken || code == kExitConfig ||
         code == kExitNotFinite;
}

std::unique_ptr<status::HttpPage> Text(int code, std::string body) {
  return std::make_unique<status::HttpPage>(
      status::HttpPage{.code = code, .body = std::move(body)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<StatusHost>> StatusHost::Start(status::HttpOptions options,
                                                              StatusHostOptions own) {
  auto host = std::make_unique<StatusHost>(std::move(own));
  host->turned_ = NodeLoop::Now();  // what hangs before it turns at all hangs too
  auto server = status::HttpServer::Start(
      std::move(options),
      [self = host.get()](const std::string& path) { return self->PageOf(path, NodeLoop::Now()); });
  if (!server.ok()) return server.status();
  host->server_ = *std::move(server);
  return host;
}

void StatusHost::Turn(Nanos began, const std::function<NodeStatus()>& make) {
  turned_.store(began, std::memory_order_relaxed);
  const Nanos took = std::max<Nanos>(NodeLoop::Now() - began, 0);
  turns_.milliseconds.Add(static_cast<uint64_t>(took / kMillisecond));
  turns_.sum += took;
  if (began < next_) return;
  next_ = began + kEvery;
  Set(make());
}

void StatusHost::ShowEnd(Nanos now, NodeStatus last) {
  turned_.store(now, std::memory_order_relaxed);
  const bool to_be_mended = last.job.ended.has_value() && IsToBeMended(last.job.ended->code);
  const bool watched = now - watched_.load(std::memory_order_relaxed) < kWatched;
  const Nanos scraped = scraped_.load(std::memory_order_relaxed);
  const Nanos longer = std::max(interval_.load(std::memory_order_relaxed),
                                interval_before_.load(std::memory_order_relaxed));
  const bool awaited = to_be_mended && now - scraped < kScraped;
  Set(std::move(last));
  scrapes_before_end_ = scrapes_.load(std::memory_order_acquire);
  shown_least_ = watched ? now + kEndShown : now;
  const Nanos next = scraped + (longer > 0 ? longer : kScrapeEvery) + kScrapeLate;
  shown_until_ = awaited ? std::max(next, now) : now;
}

Nanos StatusHost::EndLeft(Nanos now) const {
  const bool scraped = scrapes_.load(std::memory_order_acquire) > scrapes_before_end_;
  return std::max<Nanos>({0, shown_least_ - now, scraped ? 0 : shown_until_ - now});
}

// Of one page that was read before this.
void StatusHost::NoteScrape(Nanos now) {
  const Nanos before = scraped_.exchange(now, std::memory_order_relaxed);
  if (now - before < kScraped) {
    interval_before_.store(interval_.exchange(now - before, std::memory_order_relaxed),
                           std::memory_order_relaxed);
  }
  scrapes_.fetch_add(1, std::memory_order_release);
}

void StatusHost::Set(NodeStatus status) {
  status.job.security = options_.security;
  status.turns = turns_;
  status_.Set(std::move(status));
}

std::unique_ptr<status::HttpPage> StatusHost::PageOf(const std::string& path, Nanos now) {
  if (options_.dashboard) {
    auto file = status::DashboardFile(path);
    if (file != nullptr) return file;
  }
  const Nanos still = now - turned_.load(std::memory_order_relaxed);
  if (path == "/healthz") {
    if (still <= kLoopPatience) return Text(200, "ok\n");
    return Text(503, absl::StrCat("the loop has stood still for ", still / kSecond, " s\n"));
  }
  const std::shared_ptr<const NodeStatus> status = status_.Get();
  const bool known = path == "/readyz" || path == "/metrics" || path == "/statusz" ||
                     path == "/statusz.json" || path == "/";
  if (!known) return nullptr;
  if (status == nullptr) return Text(503, "starting\n");
  const JobStatus& job = status->job;
  if (path == "/readyz") {
    if (!job.ready) return Text(503, absl::StrCat(job.waits, "\n"));
    return Text(200, job.waits.empty() ? "ok\n" : absl::StrCat("ok, ", job.waits, "\n"));
  }
  if (path == "/metrics") {
    NoteScrape(now);
    metrics::Families families = FamiliesOf(*status);
    families.Add(ProcessFamilies());
    auto page = Text(200, metrics::Exposition(families));
    page->type = metrics::kExpositionType;
    return page;
  }
  if (path == "/statusz.json") {
    watched_.store(now, std::memory_order_relaxed);
    auto page = Text(200, StatusJson(job) + "\n");
    page->type = "application/json";
    return page;
  }
  return Text(200, StatusScreen(job, kScreenColumns, /*utf8=*/true));
}

}  // namespace soapstone::apps
