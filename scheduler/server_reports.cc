#include "scheduler/server_reports.h"

#include <algorithm>

namespace soapstone::scheduler {

bool ServerReports::Record(Nanos now, ServerId server, const wire::ServerProgress& progress) {
  const auto is_odd = [&](const wire::ShardReads& shard) {
    const auto of_another = [&](const wire::ReaderState& reader) {
      return Index(reader.worker) >= workers_;
    };
    return !places_.MayBeOn(server, shard.shard) || shard.reader_count > workers_ ||
           std::any_of(shard.readers.begin(), shard.readers.end(), of_another);
  };
  if (std::any_of(progress.shards.begin(), progress.shards.end(), is_odd)) return false;
  all_[server] = {now, progress};
  return true;
}

}  // namespace soapstone::scheduler
