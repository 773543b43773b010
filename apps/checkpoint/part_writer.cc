#include "apps/checkpoint/part_writer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/memory/row_block.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "checkpoint/folder.h"
#include "checkpoint/part.h"

namespace soapstone::apps {
namespace {

constexpr absl::Duration kTaskLookAgain = absl::Seconds(1);
constexpr size_t kErrorBytesMax = 300;  // of a message

wire::Message WrittenOf(ShardId shard, Clock clock, wire::Written written) {
  wire::Message message;
  message.type = wire::MessageType::kWritten;
  message.from = wire::Address::Of(shard);
  message.to = wire::Address::Scheduler();
  message.clock = clock;
  message.body = std::move(written);
  return message;
}

std::vector<checkpoint::PartSlice> SlicesOf(const wire::Layout& layout, ShardId shard,
                                            const server::Capture& capture) {
  std::vector<checkpoint::PartSlice> slices;
  slices.reserve(capture.slices.size());
  for (size_t i = 0; i < capture.slices.size(); ++i) {
    const wire::Slice& slice = layout.slices(shard)[i];
    const server::SliceImage& image = capture.slices[i];
    const ParamSpec& param = layout.params()[Index(slice.param)];
    slices.push_back({.param = checkpoint::WholeName(param),
                      .box = checkpoint::BoxOf(param),
                      .begin = slice.begin,
                      .values = image.values.floats(),
                      .first = image.state.first,
                      .second = image.state.second,
                      .steps = image.state.steps});
  }
  return slices;
}

}  // namespace

std::vector<checkpoint::PartTable> TablesOf(const wire::Layout& layout,
                                            server::TableCapture* rows) {
  std::vector<checkpoint::PartTable> tables;
  for (uint32_t t = 0; rows != nullptr && t < layout.tables().size(); ++t) {
    const server::TableCapture::Table& table = rows->table(t);
    tables.push_back(
        {.name = layout.tables()[t].name,
         .form = table.form,
         .rows = table.rows(),
         .hand = table.hand,
         .next = [rows, t](size_t count, RowBlock* block) { return rows->Take(t, count, block); }});
  }
  return tables;
}

PartWriter::PartWriter(std::shared_ptr<const Job> job, uint64_t session,
                       std::function<void(wire::Message)> tell)
    : job_(std::move(job)),
      session_(session),
      tell_(std::move(tell)),
      tasks_(std::max(1u, job_->layout->shard_count())),
      thread_([this] { Run(); }) {}

PartWriter::~PartWriter() { tasks_.Close(); }

void PartWriter::Write(ShardId shard, server::Capture capture) {
  const Clock clock = capture.clock;
  bool is_free = false;
  {
    const MutexLock lock(&mutex_);
    is_free = busy_.insert(shard).second;
  }
  if (is_free && tasks_.TryPut({shard, std::move(capture)})) return;
  if (is_free) {
    const MutexLock lock(&mutex_);
    busy_.erase(shard);
  }
  tell_(WrittenOf(shard, clock, {.error = "its part of the one before is still being written"}));
}

void PartWriter::Run() {
  while (!tasks_.closed()) {
    std::optional<Task> task = tasks_.Take(SteadyNow() + kTaskLookAgain);
    if (!task.has_value() || tasks_.closed()) continue;
    wire::Message written = WriteNow(*task);
    const ShardId shard = task->shard;
    task.reset();  // its views
    {
      const MutexLock lock(&mutex_);
      busy_.erase(shard);
    }
    tell_(std::move(written));
  }
}

wire::Message PartWriter::WriteNow(const Task& task) {
  const Clock clock = task.capture.clock;
  const std::string folder =
      checkpoint::UnderWay(job_->config.output().checkpoint_path(), clock, session_);
  const std::string path = absl::StrCat(folder, "/", checkpoint::PartFile(Index(task.shard)));
  const auto write = [&]() -> absl::StatusOr<checkpoint::PartSums> {
    SOAP_RETURN_IF_ERROR(disk_->MakeFolder(folder));
    return checkpoint::WritePart(disk_.get(), path, clock,
                                 SlicesOf(*job_->layout, task.shard, task.capture),
                                 TablesOf(*job_->layout, task.capture.tables.get()));
  };
  const absl::StatusOr<checkpoint::PartSums> sums = write();
  if (!sums.ok()) {
    disk_->Remove(path).IgnoreError();  // the scheduler takes away the folder
    std::string error(sums.status().message());
    if (error.size() > kErrorBytesMax) error.resize(kErrorBytesMax);
    return WrittenOf(task.shard, clock, {.error = std::move(error)});
  }
  wire::Message message = WrittenOf(task.shard, clock, {.bytes = sums->bytes});
  message.payload = {Buffer::CopyOf(absl::MakeConstSpan(sums->blocks))};
  return message;
}

}  // namespace soapstone::apps
