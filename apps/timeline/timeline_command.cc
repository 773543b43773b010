#include "apps/timeline/timeline_command.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "apps/cli/console.h"
#include "apps/cli/job_source.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "observe/timeline/draw_timeline.h"
#include "observe/timeline/read_events.h"

namespace soapstone::apps {
namespace {

constexpr char kTimelineProgram[] = "soapstone timeline";
constexpr absl::Duration kLookAgain = absl::Milliseconds(200);

// Who has not said by then that there is a job is not waited for any longer.
constexpr double kBeginSeconds = 10;
// An apply is later than the step that pushed.
constexpr double kAppliesSeconds = 5;

bool HasStep(const timeline::ThreadEvents& thread, Clock clock) {
  return std::any_of(thread.events.begin(), thread.events.end(), [&](const timeline::Event& event) {
    return event.kind == timeline::EventKind::kStep && event.clock == clock;
  });
}

bool IsWritten(const timeline::FolderEvents& folder) {
  return std::any_of(folder.threads.begin(), folder.threads.end(),
                     [](const timeline::ThreadEvents& thread) { return thread.written; });
}

// A worker that writes has not come to the end, or none is there yet: more may come.
bool MayComeFurther(const timeline::FolderEvents& folder, const timeline::ClockRange& clocks) {
  size_t workers = 0;
  for (const timeline::ThreadEvents& thread : folder.threads) {
    if (thread.kind != timeline::ThreadKind::kWorkerLoop) continue;
    ++workers;
    if (thread.written && thread.latest < clocks.end && !HasStep(thread, clocks.end - 1)) {
      return true;
    }
  }
  return workers == 0 && IsWritten(folder);
}

absl::StatusOr<timeline::FolderEvents> Read(const TimelineFlags& flags,
                                            const timeline::ClockRange& clocks) {
  const SteadyTime begin = SteadyNow();
  while (true) {
    absl::StatusOr<timeline::FolderEvents> folder = timeline::ReadFolder(flags.folder, clocks);
    const double patience = folder.ok() ? flags.wait_s : std::min(flags.wait_s, kBeginSeconds);
    const bool waits = clocks.bounded() && SteadyNow() < begin + absl::Seconds(patience) &&
                       (!folder.ok() || MayComeFurther(*folder, clocks));
    if (!waits) return folder;
    absl::SleepFor(kLookAgain);
  }
}

// Again, where the last pushes have not been taken in hand yet.
void AwaitApplies(const TimelineFlags& flags, const timeline::ClockRange& clocks,
                  timeline::FolderEvents* folder, timeline::Timeline* timeline) {
  const SteadyTime until = SteadyNow() + absl::Seconds(std::min(flags.wait_s, kAppliesSeconds));
  while (clocks.bounded() && timeline->flows < timeline->pushes && IsWritten(*folder) &&
         SteadyNow() < until) {
    absl::SleepFor(kLookAgain);
    absl::StatusOr<timeline::FolderEvents> later = timeline::ReadFolder(flags.folder, clocks);
    if (!later.ok()) return;
    *folder = *std::move(later);
    *timeline = timeline::DrawTimeline(folder->threads, clocks);
  }
}

absl::Status NoneOf(const timeline::ClockRange& clocks, const timeline::FolderEvents& folder) {
  Clock latest = kNoClock;
  for (const timeline::ThreadEvents& thread : folder.threads) {
    latest = std::max(latest, thread.latest);
  }
  return absl::InvalidArgumentError(absl::StrCat("no step of the clocks ",
                                                 timeline::ToString(clocks),
                                                 " is there; the last event is of clock ", latest));
}

absl::Status Draw(const TimelineFlags& flags) {
  if (absl::EndsWith(flags.out, ".events")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: ", flags.out, " is named as what is drawn: give another name"));
  }
  SOAP_ASSIGN_OR_RETURN(const timeline::ClockRange clocks, timeline::ParseClockRange(flags.clocks));
  SOAP_ASSIGN_OR_RETURN(timeline::FolderEvents folder, Read(flags, clocks));
  timeline::Timeline timeline = timeline::DrawTimeline(folder.threads, clocks);
  AwaitApplies(flags, clocks, &folder, &timeline);
  if (timeline.steps == 0) return NoneOf(clocks, folder);
  const std::string path = flags.out.empty() ? flags.folder + "/timeline.json" : flags.out;
  SOAP_RETURN_IF_ERROR(WriteWholeFile(path, timeline.text));
  for (const auto& notes : {folder.notes, timeline.notes}) {
    for (const std::string& note : notes) std::cerr << kTimelineProgram << ": " << note << "\n";
  }
  std::cout << timeline.steps << " steps of " << timeline.workers << " workers, " << timeline.flows
            << " of " << timeline.pushes << " pushes with their apply, ";
  if (timeline.blocks > 0) {
    std::cout << timeline.block_flows << " of " << timeline.blocks
              << " blocks with where they went, ";
  }
  std::cout << timeline.text.size() << " bytes: " << path << " (open it in ui.perfetto.dev)\n";
  return absl::OkStatus();
}

}  // namespace

int DrawJobTimeline(const TimelineFlags& flags) {
  const absl::Status drawn = Draw(flags);
  return drawn.ok() ? kExitOk : SayConfigError(kTimelineProgram, drawn);
}

}  // namespace soapstone::apps
