// ServerReports: what the servers of a job last said of their shards' reads. A value: the
// coordinator feeds it, whoever shows the job looks at it, and nothing is decided by it.
#pragma once

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "wire/message.h"
#include "wire/shard_places.h"

namespace soapstone::scheduler {

// Invariant: of each server the last report that can be its own is kept, and no other.
class ServerReports {
 public:
  struct Report {
    Nanos at = 0;  // when it came
    wire::ServerProgress progress;
  };

  ServerReports(uint32_t workers, wire::ShardPlaces places) : workers_(workers), places_(places) {}

  // False where it cannot be: of shards that are not the server's, or of more readers than the job
  // has workers. REQUIRES: what Validate (wire/frame.h) sees to.
  bool Record(Nanos now, ServerId server, const wire::ServerProgress& progress);

  // It is gone: what others have of its shards is theirs to say.
  void Forget(ServerId server) { all_.erase(server); }
  const std::map<ServerId, Report>& all() const { return all_; }

 private:
  uint32_t workers_;
  wire::ShardPlaces places_;
  std::map<ServerId, Report> all_;
};

}  // namespace soapstone::scheduler
