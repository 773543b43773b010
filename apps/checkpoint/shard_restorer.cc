#include "apps/checkpoint/shard_restorer.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/disk.h"
#include "checkpoint/image.h"
#include "cluster/resume/resume.h"

namespace soapstone::apps {

absl::Status RestoreShard(const Job& job, ShardId shard, server::Store* store) {
  if (job.first_clock == 0 || job.layout->slices(shard).empty()) return absl::OkStatus();
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  SOAP_ASSIGN_OR_RETURN(const wire::Checkpoint first, ReadFirstCheckpoint(job, disk.get()));
  const auto fill = [&]() -> absl::Status {
    SOAP_ASSIGN_OR_RETURN(
        checkpoint::Image image,
        checkpoint::Image::Open(disk.get(), job.config.output().checkpoint_path(), first));
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
