// StatusHost: the pages of a node: /metrics, /healthz, /readyz, /statusz, /statusz.json. The loop
// tells it that it turns and, now and then, how the node is; a thread of its own answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/node/node_status.h"
#include "base/ids.h"
#include "observe/status/http_server.h"
#include "observe/status/published.h"

namespace soapstone::apps {

class StatusHost {
 public:
  static constexpr Nanos kEvery = kSecond / 2;  // from a status to the next
  static constexpr Nanos kLoopPatience =
      60 * kSecond;  // a loop that stands still for so long hangs

  static absl::StatusOr<std::unique_ptr<StatusHost>> Start(status::HttpOptions options);
  const std::string& address() const { return server_->address(); }

  // The loop calls it at each turn; `make` is called where a new status is due.
  void Turn(Nanos now, const std::function<NodeStatus()>& make);

  // The page of a path at `now`. Thread-safe.
  std::unique_ptr<status::HttpPage> PageOf(const std::string& path, Nanos now) const;

 private:
  std::atomic<Nanos> turned_{0};  // last; before the first turn, when this was started
  Nanos next_ = 0;
  status::Published<NodeStatus> status_;
  std::unique_ptr<status::HttpServer> server_;  // last: it calls the others
};

// Turns `host`, which may be null.
template <class Make>
void Show(StatusHost* host, Nanos now, const Make& make) {
  if (host != nullptr) host->Turn(now, make);
}

}  // namespace soapstone::apps
