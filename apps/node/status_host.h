// StatusHost: the pages of a node: /metrics, /healthz, /readyz, /statusz, /statusz.json, and of the
// scheduler the dashboard at /. The loop tells it that it turns and, now and then, how the node is;
// a thread of its own answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "apps/node/node_status.h"
#include "base/ids.h"
#include "observe/status/http_server.h"
#include "observe/status/published.h"

namespace soapstone::apps {

struct StatusHostOptions {
  bool dashboard = false;
  std::string security;  // what protects the node's connections, in words
};

class StatusHost {
 public:
  static constexpr Nanos kNobody = -kSecond * 1'000'000;
  static constexpr Nanos kEvery = kSecond / 2;  // from a status to the next
  static constexpr Nanos kLoopPatience =
      60 * kSecond;  // a loop that stands still for so long hangs
  // Who has asked for the status within kWatched looks once a second, and is shown the end for
  // kEndShown.
  static constexpr Nanos kWatched = 3 * kSecond;
  static constexpr Nanos kEndShown = 1200 * kMillisecond;
  // Who has asked for the metrics within kScraped does so again and again. An end that is to be
  // mended stays there until the next time, which is expected after the longer of the last two
  // intervals or, where there was none, after kScrapeEvery; it may be later by kScrapeLate.
  static constexpr Nanos kScraped = 150 * kSecond;
  static constexpr Nanos kScrapeEvery = 15 * kSecond;
  static constexpr Nanos kScrapeLate = kSecond;

  explicit StatusHost(StatusHostOptions options) : options_(std::move(options)) {}
  static absl::StatusOr<std::unique_ptr<StatusHost>> Start(status::HttpOptions options,
                                                           StatusHostOptions own);
  const std::string& address() const { return server_->address(); }

  // The loop calls it at the end of each turn, with when that began; `make` is called where a new
  // status is due.
  void Turn(Nanos began, const std::function<NodeStatus()>& make);
  // The node comes forward, though its loop does not turn yet. Thread-safe.
  void Starts(Nanos now) { turned_.store(now, std::memory_order_relaxed); }
  // The last status, with the job's end.
  void ShowEnd(Nanos now, NodeStatus last);
  // How long it is to be left there at most: 0 once who looks has seen it, or has had the time.
  // REQUIRES: ShowEnd.
  Nanos EndLeft(Nanos now) const;

  // The page of a path at `now`. Thread-safe.
  std::unique_ptr<status::HttpPage> PageOf(const std::string& path, Nanos now);

 private:
  void NoteScrape(Nanos now);
  void Set(NodeStatus status);

  const StatusHostOptions options_;
  std::atomic<Nanos> turned_{0};         // last; before the first turn, when this was started
  std::atomic<Nanos> watched_{kNobody};  // when the status was last asked for
  std::atomic<Nanos> scraped_{kNobody};  // when the metrics were
  std::atomic<Nanos> interval_{0}, interval_before_{0};  // between scrapes; 0: none yet
  std::atomic<uint64_t> scrapes_{0};
  uint64_t scrapes_before_end_ = 0;
  Nanos shown_until_ = 0;  // at most
  Nanos shown_least_ = 0;
  Nanos next_ = 0;
  TurnTimes turns_;
  status::Published<NodeStatus> status_;
  std::unique_ptr<status::HttpServer> server_;  // last: it calls the others
};

// Turns `host`, which may be null.
template <class Make>
void Show(StatusHost* host, Nanos began, const Make& make) {
  if (host != nullptr) host->Turn(began, make);
}

}  // namespace soapstone::apps
