#include "observe/timeline/draw_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "observe/timeline/machine_clocks.h"
#include "observe/timeline/planned_steps.h"

namespace soapstone::timeline {
namespace {

using Json = nlohmann::json;

constexpr size_t kNotesMax = 16;
// Processes of the picture: workers by rank, shards behind them.
constexpr int64_t kShards = int64_t{1} << 32;
// Tracks of a worker; pulls have one a shard. Of a shard: what it does, and pulls a worker.
constexpr int64_t kSteps = 0, kPushes = 1, kDevice = 2, kPlannedTrack = 3, kBlocks = 4, kPulls = 16;
constexpr int64_t kHandled = 0, kParked = 16;

struct KindText {
  const char* name;
  const char* category;
};
constexpr KindText kTexts[kKinds] = {
    {"", ""},
    {"step", "step"},
    {"push", "push"},
    {"pull", "pull"},
    {"forward", "compute"},
    {"backward", "compute"},
    {"keys", "device"},
    {"load", "device"},
    {"collect", "device"},
    {"update", "compute"},
    {"elastic", "device"},
    {"delta", "device"},
    {"evaluate", "compute"},
    {"apply", "apply"},
    {"clock", "shard"},
    {"read", "shard"},
    {"parked", "parked"},
    {"samples", "device"},
    {"take block", "block"},
    {"give block", "block"},
    {"rest", "rest"},
    {"send block", "block"},
};
const KindText& TextOf(EventKind kind) { return kTexts[static_cast<uint32_t>(kind)]; }

int64_t ProcessOf(const ThreadEvents& thread) {
  return (thread.kind == ThreadKind::kShard ? kShards : 0) + thread.index;
}

TrackId TrackOf(const ThreadEvents& thread, const Event& event) {
  const int64_t process = ProcessOf(thread);
  if (thread.kind == ThreadKind::kPlanned) return {process, kPlannedTrack};
  switch (event.kind) {
    case EventKind::kStep:
      return {process, kSteps};
    case EventKind::kPush:
      return {process, kPushes};
    case EventKind::kPull:
      return {process, kPulls + event.with};
    case EventKind::kAnswer:
      return {process, kParked + event.with};
    case EventKind::kBlock:
      return {process, kBlocks};
    default:
      return {process, thread.kind == ThreadKind::kShard ? kHandled : kDevice};
  }
}

std::string TrackName(const TrackId& track, EventKind kind) {
  if (kind == EventKind::kPull) return absl::StrCat("pulls of shard ", track.track - kPulls);
  if (kind == EventKind::kAnswer) return absl::StrCat("parked, worker ", track.track - kParked);
  if (track.process >= kShards) return "handled";
  switch (track.track) {
    case kSteps:
      return "steps";
    case kPushes:
      return "pushes";
    case kPlannedTrack:
      return "planned";
    case kBlocks:
      return "blocks sent";
    default:
      return "device";
  }
}

std::string NameOf(const ThreadEvents& thread, const Event& event) {
  const char* const name = TextOf(event.kind).name;
  switch (event.kind) {
    case EventKind::kStep:
      return absl::StrCat(name, " ", event.clock);
    case EventKind::kForward:
    case EventKind::kBackward:
      return event.with < thread.names.size() ? absl::StrCat(name, " ", thread.names[event.with])
                                              : absl::StrCat(name, " operator ", event.with);
    case EventKind::kApply:
    case EventKind::kCompletion:
    case EventKind::kRead:
      return absl::StrCat(name, ", worker ", event.with);
    case EventKind::kTake:
    case EventKind::kGive:
    case EventKind::kBlock:
      return absl::StrCat(name, " ", event.with);
    default:
      return name;
  }
}

Json ArgsOf(const Event& event) {
  Json args = {{"clock", event.clock}};
  if (event.kind == EventKind::kPush) args["shard"] = event.with;
  if (event.kind != EventKind::kPull) return args;
  const int64_t took_us = (event.end_ns - event.begin_ns) / 1000;
  const int64_t parked_us = event.parked_us, queued_us = event.queued_us;
  args.update({{"shard", event.with},
               {"policy_us", parked_us},
               {"shard_us", queued_us},
               {"network_us", std::max<int64_t>(took_us - parked_us - queued_us, 0)}});
  return args;
}

bool IsBlockEnd(EventKind kind) { return kind == EventKind::kGive || kind == EventKind::kTake; }

class Drawing {
 public:
  Drawing(const std::vector<ThreadEvents>& threads, const ClockRange& clocks, size_t bytes_max)
      : threads_(threads), range_(clocks), clocks_(threads), writer_(bytes_max) {}

  Timeline Draw() {
    FindBegin();
    NameAll();
    AddKinds([](EventKind kind) { return kind == EventKind::kStep; });
    AddKinds([](EventKind kind) { return kind == EventKind::kPush || kind == EventKind::kApply; });
    const FlowCount applied = AddFlows(EventKind::kPush, EventKind::kApply);
    timeline_.pushes = applied.from;
    timeline_.flows = applied.drawn;
    AddKinds([](EventKind kind) { return IsBlockEnd(kind); });
    const FlowCount taken = AddFlows(EventKind::kGive, EventKind::kTake);
    timeline_.blocks = taken.from;
    timeline_.block_flows = taken.drawn;
    AddKinds([](EventKind kind) {
      return kind != EventKind::kStep && kind != EventKind::kPush && kind != EventKind::kApply &&
             !IsBlockEnd(kind);
    });
    AddPlanned();
    NoteSteps();
    NoteMachines();
    for (const ThreadEvents& thread : threads_) timeline_.lost += thread.lost;
    timeline_.left_out = writer_.left_out();
    if (timeline_.left_out > 0) {
      Note(absl::StrCat(timeline_.left_out, " events had no place in the file"));
    }
    Json about = {{"clocks", ToString(range_)},    {"steps", timeline_.steps},
                  {"pushes", timeline_.pushes},    {"flows", timeline_.flows},
                  {"blocks", timeline_.blocks},    {"block_flows", timeline_.block_flows},
                  {"lost_events", timeline_.lost}, {"notes", timeline_.notes},
                  {"machines", MachinesJson()}};
    timeline_.text = writer_.Finish(std::move(about));
    return std::move(timeline_);
  }

 private:
  void Note(std::string line) {
    if (timeline_.notes.size() < kNotesMax) timeline_.notes.push_back(std::move(line));
  }

  Nanos At(const ThreadEvents& thread, Nanos at) const {
    return clocks_.OnFirst(thread.machine, at) - begin_;
  }

  void FindBegin() {
    Nanos least = std::numeric_limits<Nanos>::max();
    for (const ThreadEvents& thread : threads_) {
      if (thread.kind == ThreadKind::kPlanned) continue;
      for (const Event& event : thread.events) {
        if (!range_.Has(event.clock)) continue;
        least = std::min(least, clocks_.OnFirst(thread.machine, event.begin_ns));
      }
    }
    begin_ = least == std::numeric_limits<Nanos>::max() ? 0 : least;
  }

  void NameAll() {
    std::set<int64_t> processes;
    std::map<std::pair<int64_t, int64_t>, std::string> tracks;
    for (const ThreadEvents& thread : threads_) {
      const int64_t process = ProcessOf(thread);
      const char* const what = thread.kind == ThreadKind::kShard ? "shard " : "worker ";
      if (processes.insert(process).second) {
        writer_.NameProcess(process, absl::StrCat(what, thread.index, " (", thread.host, ")"));
      }
      for (const Event& event : thread.events) {
        const TrackId track = TrackOf(thread, event);
        auto [it, fresh] = tracks.try_emplace({track.process, track.track});
        if (fresh) it->second = TrackName(track, event.kind);
      }
    }
    for (const auto& [key, name] : tracks) {
      writer_.NameTrack({key.first, key.second}, name);
      writer_.PlaceTrack({key.first, key.second}, key.second);
    }
  }

  template <class Wanted>
  void AddKinds(const Wanted& wanted) {
    for (const ThreadEvents& thread : threads_) {
      if (thread.kind == ThreadKind::kPlanned) continue;
      for (const Event& event : thread.events) {
        if (!range_.Has(event.clock) || !wanted(event.kind)) continue;
        if (event.kind == EventKind::kStep && !steps_[thread.index].insert(event.clock).second) {
          continue;  // of the worker that was here before
        }
        const std::string name = NameOf(thread, event);
        const Slice slice = {.on = TrackOf(thread, event),
                             .name = name,
                             .category = TextOf(event.kind).category,
                             .begin = At(thread, event.begin_ns),
                             .end = At(thread, event.end_ns)};
        if (writer_.Add(slice, ArgsOf(event)) && event.kind == EventKind::kStep) ++timeline_.steps;
      }
    }
  }

  // What was planned, beside each step that is drawn.
  void AddPlanned() {
    for (const PlannedSlice& planned : PlaceSteps(threads_, range_, clocks_)) {
      const ThreadEvents& thread = threads_[planned.thread];
      const std::string name = NameOf(thread, *planned.half);
      const Slice slice = {.on = TrackOf(thread, *planned.half),
                           .name = name,
                           .category = TextOf(planned.half->kind).category,
                           .begin = planned.begin - begin_,
                           .end = planned.end - begin_};
      writer_.Add(slice, {{"clock", planned.clock}});
    }
  }

  struct FlowCount {
    uint64_t from = 0, drawn = 0;
  };
  // From each event of one kind to the first of the other that has its flow.
  FlowCount AddFlows(EventKind from_kind, EventKind to_kind) {
    struct End {
      TrackId track;
      Nanos at = 0;
    };
    std::map<uint64_t, End> ends;
    for (const ThreadEvents& thread : threads_) {
      for (const Event& event : thread.events) {
        if (event.kind != to_kind || !range_.Has(event.clock)) continue;
        ends.try_emplace(event.flow, End{TrackOf(thread, event), At(thread, event.begin_ns)});
      }
    }
    FlowCount count;
    for (const ThreadEvents& thread : threads_) {
      for (const Event& event : thread.events) {
        if (event.kind != from_kind || !range_.Has(event.clock)) continue;
        ++count.from;
        const auto to = ends.find(event.flow);
        if (to == ends.end()) continue;
        const Nanos from = At(thread, event.begin_ns);
        if (writer_.AddFlow(event.flow, TrackOf(thread, event), from, to->second.track,
                            to->second.at)) {
          ++count.drawn;
        }
      }
    }
    return count;
  }

  void NoteSteps() {
    std::map<uint32_t, Clock> workers;  // and how far they have come
    for (const ThreadEvents& thread : threads_) {
      if (thread.kind == ThreadKind::kShard || thread.kind == ThreadKind::kPlanned) continue;
      Clock& latest = workers.try_emplace(thread.index, kNoClock).first->second;
      latest = std::max(latest, thread.latest);
    }
    for (const auto& [worker, latest] : workers) {
      const std::set<Clock>& steps = steps_[worker];
      timeline_.workers += steps.empty() ? 0 : 1;
      if (!range_.bounded()) continue;
      const Clock missing = range_.end - range_.begin - static_cast<Clock>(steps.size());
      if (missing == 0) continue;
      Note(absl::StrCat("worker ", worker, ": ", missing, " of ", range_.end - range_.begin,
                        " steps are not there; its last event is of clock ", latest));
    }
  }

  void NoteMachines() {
    for (const auto& [id, machine] : clocks_.machines()) {
      if (machine.known) continue;
      Note(absl::StrCat("host ", machine.host,
                        ": nothing is known of its clock; its times are its own"));
    }
  }

  Json MachinesJson() const {
    Json machines = Json::array();
    for (const auto& [id, machine] : clocks_.machines()) {
      machines.push_back({{"host", machine.host},
                          {"clock_offset_ns", machine.offset},
                          {"clock_error_ns", machine.error},
                          {"clock_known", machine.known}});
    }
    return machines;
  }

  const std::vector<ThreadEvents>& threads_;
  const ClockRange range_;
  const MachineClocks clocks_;
  TraceWriter writer_;
  Timeline timeline_;
  Nanos begin_ = 0;
  std::map<uint32_t, std::set<Clock>> steps_;  // drawn, by worker
};

}  // namespace

Timeline DrawTimeline(const std::vector<ThreadEvents>& threads, const ClockRange& clocks,
                      size_t bytes_max) {
  return Drawing(threads, clocks, bytes_max).Draw();
}

}  // namespace soapstone::timeline
