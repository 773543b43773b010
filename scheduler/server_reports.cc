#include "scheduler/server_reports.h"

#include <algorithm>

namespace soapstone::scheduler {

bool ServerReports::Record(Nanos now, ServerId server, const wire::ServerProgress& progress) {
  const auto is_odd = [&](const wire::ShardReads& shard) {
    const auto of_another = [&](const wire::ReaderState& reader) {
      return Index(reader.worker) >= workers_;
    };
    return Index(shard.shard) / shards_per_server_ != Index(server) ||
           shard.reader_count > workers_ ||
           std::any_of(shard.readers.begin(), shard.readers.end(), of_another);
  };
  if (std::any_of(progress.shards.begin(), progress.shards.end(), is_odd)) return false;
  all_[server] = {now, progress};
  return true;
}

}  // namespace soapstone::scheduler
