#include "apps/node/status_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/loop/node_loop.h"
#include "observe/metrics/exposition.h"

namespace soapstone::apps {
namespace {

constexpr size_t kScreenColumns = 200;

std::unique_ptr<status::HttpPage> Text(int code, std::string body) {
  return std::make_unique<status::HttpPage>(
      status::HttpPage{.code = code, .body = std::move(body)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<StatusHost>> StatusHost::Start(status::HttpOptions options) {
  auto host = std::make_unique<StatusHost>();
  host->turned_ = NodeLoop::Now();  // what hangs before it turns at all hangs too
  auto server = status::HttpServer::Start(
      std::move(options),
      [self = host.get()](const std::string& path) { return self->PageOf(path, NodeLoop::Now()); });
  if (!server.ok()) return server.status();
  host->server_ = *std::move(server);
  return host;
}

void StatusHost::Turn(Nanos now, const std::function<NodeStatus()>& make) {
  turned_.store(now, std::memory_order_relaxed);
  if (now < next_) return;
  next_ = now + kEvery;
  status_.Set(make());
}

std::unique_ptr<status::HttpPage> StatusHost::PageOf(const std::string& path, Nanos now) const {
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
    metrics::Families families = FamiliesOf(*status);
    families.Add(ProcessFamilies());
    auto page = Text(200, metrics::Exposition(families));
    page->type = metrics::kExpositionType;
    return page;
  }
  if (path == "/statusz.json") {
    auto page = Text(200, StatusJson(job) + "\n");
    page->type = "application/json";
    return page;
  }
  return Text(200, StatusScreen(job, kScreenColumns, /*utf8=*/true));
}

}  // namespace soapstone::apps
