#include "apps/checkpoint/shard_restorer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/memory/row_block.h"
#include "base/status_macros.h"
#include "checkpoint/disk.h"
#include "checkpoint/image.h"
#include "cluster/resume/resume.h"
#include "wire/key_shard.h"

namespace soapstone::apps {
namespace {

// Those of the table's rows that are the shard's now, whoever had them.
absl::Status RestoreTable(const wire::Layout& layout, ShardId shard, uint32_t t,
                          const checkpoint::Image::Table& there, checkpoint::Image* image,
                          server::TableStore* tables) {
  const RowForm form = tables->table(t).form();
  const auto refuse = [&](auto&&... why) {
    return absl::InvalidArgumentError(absl::StrCat("table ", there.name, ": ", why...));
  };
  if (there.form.dim != form.dim) {
    return refuse("has rows of ", there.form.dim, " floats there, and of ", form.dim, " here");
  }
  if (there.rows > 0 && there.form != form) {
    return refuse("its rows have other state there than the optimizer has here");
  }
  const bool as_before = there.hands.size() == layout.shard_count();
  if (as_before && there.hands[Index(shard)].has_value()) {
    tables->set_hand(t, *there.hands[Index(shard)]);
  }
  const auto mine = [&](uint64_t key) {
    return wire::ShardOfKey(t, key, layout.shard_count()) == shard;
  };
  return image->ReadRows(there.name, mine, /*state=*/true,
                         [&](size_t /*part*/, const RowBlock& rows) {
                           const absl::Status restored = tables->Restore(t, rows);
                           return restored.ok() ? restored : refuse(restored.message());
                         });
}

}  // namespace

absl::Status RestoreTables(const wire::Layout& layout, ShardId shard, checkpoint::Image* image,
                           server::TableStore* tables) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<checkpoint::Image::Table> there, image->Tables());
  for (uint32_t t = 0; t < layout.tables().size(); ++t) {
    const std::string& name = layout.tables()[t].name;
    const auto table = std::find_if(there.begin(), there.end(),
                                    [&](const auto& stored) { return stored.name == name; });
    if (table == there.end()) {
      return absl::InvalidArgumentError(absl::StrCat("it lacks table ", name));
    }
    SOAP_RETURN_IF_ERROR(RestoreTable(layout, shard, t, *table, image, tables));
  }
  return absl::OkStatus();
}

absl::Status RestoreShard(const Job& job, ShardId shard, server::Store* store) {
  const bool has_tables = !job.layout->tables().empty();
  if (job.first_clock == 0 || (job.layout->slices(shard).empty() && !has_tables)) {
    return absl::OkStatus();
  }
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  SOAP_ASSIGN_OR_RETURN(const wire::Checkpoint first, ReadFirstCheckpoint(job, disk.get()));
  const auto fill = [&]() -> absl::Status {
    SOAP_ASSIGN_OR_RETURN(
        checkpoint::Image image,
        checkpoint::Image::Open(disk.get(), job.config.output().checkpoint_path(), first));
    if (has_tables) {
      SOAP_RETURN_IF_ERROR(RestoreTables(*job.layout, shard, &image, store->tables_to_restore()));
    }
    return store->Restore([&](size_t i, absl::Span<float> values, compute::SliceState* state) {
      const wire::Slice& slice = job.layout->slices(shard)[i];
      const ParamSpec& param = job.layout->params()[Index(slice.param)];
      return image.Fill(checkpoint::WholeName(param), checkpoint::BoxOf(param), slice.begin,
                        {.values = values,
                         .first = &state->first,
                         .second = &state->second,
                         .steps = &state->steps});
    });
  };
  absl::Status filled = fill();
  if (filled.ok()) return filled;
  return absl::InvalidArgumentError(
      absl::StrCat("output.resume: checkpoint ", job.first_clock, ": ", filled.message()));
}

}  // namespace soapstone::apps
