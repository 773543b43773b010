#include "apps/loop/job_events.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "base/fingerprint.h"

namespace soapstone::apps {

using timeline::Event;
using timeline::EventKind;
using wire::MessageType;

namespace {

std::unique_ptr<timeline::EventFile> Open(const timeline::EventFileOptions& options) {
  auto file = timeline::EventFile::Make(options);
  if (file.ok()) return *std::move(file);
  LOG(WARNING) << file.status().message() << "; the job goes on without it";
  return nullptr;
}

}  // namespace

std::unique_ptr<timeline::EventFile> OpenEvents(const Job& job, timeline::ThreadKind kind,
                                                uint32_t index, uint64_t session,
                                                std::vector<std::string> names) {
  const wire::Output& output = job.config.output();
  if (output.timeline_path().empty()) return nullptr;
  absl::StatusOr<timeline::ClockRange> clocks = timeline::ParseClockRange(output.timeline_clocks());
  if (!clocks.ok()) return nullptr;  // checked with the job
  return Open({.folder = output.timeline_path(),
               .kind = kind,
               .index = index,
               .session = session,
               .clocks = *clocks,
               .names = std::move(names)});
}

std::unique_ptr<timeline::EventFile> OpenPlanned(const Job& job, uint32_t index, uint64_t session,
                                                 std::vector<std::string> names, size_t events) {
  if (job.config.output().timeline_path().empty()) return nullptr;
  return Open({.folder = job.config.output().timeline_path(),
               .kind = timeline::ThreadKind::kPlanned,
               .index = index,
               .session = session,
               .names = std::move(names),
               .capacity = std::min(events + timeline::kInHand, timeline::kCapacityMax)});
}

uint64_t FlowOfBlock(uint32_t team, Clock clock, uint32_t number) {
  Fingerprint f;
  f.Add(team);
  f.Add(clock);
  f.Add(number);
  return f.value().first;
}

uint64_t FlowOf(const wire::Message& push) {
  const auto& body = wire::As<wire::Push>(push);
  Fingerprint f;
  f.Add(push.worker);
  f.Add(push.clock);
  f.Add(push.to.index);
  f.Add(body.bucket);
  f.Add(body.micro_batches.begin);
  f.Add(body.micro_batches.end);
  return f.value().first;
}

Event HandledEvent(const wire::Message& message, Nanos begin_ns) {
  Event event = {.begin_ns = begin_ns, .clock = message.clock, .with = Index(message.worker)};
  if (message.type == MessageType::kPush) {
    event.kind = EventKind::kApply;
    event.flow = FlowOf(message);
  } else if (message.type == MessageType::kClock) {
    event.kind = EventKind::kCompletion;
    --event.clock;  // of the clock that is complete
  } else if (message.type == MessageType::kPull) {
    event.kind = EventKind::kRead;
  }
  return event;
}

Event AnsweredEvent(const wire::Message& answer, Nanos now) {
  const auto* reply = std::get_if<wire::PullReply>(&answer.body);
  if (reply == nullptr || reply->final) return {};
  return {.begin_ns = now - reply->parked_ns,
          .end_ns = now,
          .clock = answer.clock,
          .kind = EventKind::kAnswer,
          .with = Index(answer.worker)};
}

}  // namespace soapstone::apps
