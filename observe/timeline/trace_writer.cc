#include "observe/timeline/trace_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::timeline {
namespace {

using Json = nlohmann::json;

constexpr size_t kAboutBytesMax = size_t{32} << 10;
constexpr size_t kEndBytes = kAboutBytesMax + 256;  // of what Finish adds

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double Micros(Nanos ns) { return static_cast<double>(ns) / 1e3; }

Json OfTrack(TrackId id, const char* what, const char* field, Json value) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", id.process},
          {"tid", id.track},
          {"args", {{field, std::move(value)}}}};
}

Json FlowEnd(uint64_t id, const char* phase, TrackId on, Nanos at) {
  return {{"name", "flow"},    {"cat", "flow"},
          {"ph", phase},       {"id", absl::StrCat(absl::Hex(id))},
          {"pid", on.process}, {"tid", on.track},
          {"ts", Micros(at)}};
}

}  // namespace

bool TraceWriter::Append(const std::string& events) {
  if (events_.size() + events.size() + 1 + kEndBytes > bytes_max_) {
    ++left_out_;
    return false;
  }
  if (!events_.empty()) events_ += ',';
  events_.append(events);
  return true;
}

void TraceWriter::NameProcess(int64_t process, std::string_view name) {
  Append(TextOf({{"name", "process_name"},
                 {"ph", "M"},
                 {"pid", process},
                 {"args", {{"name", std::string(name)}}}}));
}

void TraceWriter::NameTrack(TrackId track, std::string_view name) {
  Append(TextOf(OfTrack(track, "thread_name", "name", std::string(name))));
}

void TraceWriter::PlaceTrack(TrackId track, int64_t place) {
  Append(TextOf(OfTrack(track, "thread_sort_index", "sort_index", place)));
}

bool TraceWriter::Add(const Slice& slice, Json args) {
  Json event = {{"name", std::string(slice.name)}, {"ph", "X"},
                {"pid", slice.on.process},         {"tid", slice.on.track},
                {"ts", Micros(slice.begin)},       {"dur", Micros(slice.end - slice.begin)}};
  if (!slice.category.empty()) event["cat"] = std::string(slice.category);
  if (!args.is_null()) event["args"] = std::move(args);
  return Append(TextOf(event));
}

bool TraceWriter::AddFlow(uint64_t id, TrackId from, Nanos from_ns, TrackId to, Nanos to_ns) {
  Json end = FlowEnd(id, "f", to, to_ns);
  end["bp"] = "e";  // the slice that covers it, not the next
  return Append(absl::StrCat(TextOf(FlowEnd(id, "s", from, from_ns)), ",", TextOf(end)));
}

std::string TraceWriter::Finish(Json about) {
  std::string more;
  if (left_out_ > 0 || !about.is_null()) {
    about["left_out"] = left_out_;
    more = absl::StrCat(R"(,"otherData":)", TextOf(about));
    if (more.size() > kAboutBytesMax) {
      more = absl::StrCat(R"(,"otherData":{"left_out":)", left_out_, "}");
    }
  }
  std::string text =
      absl::StrCat(R"({"displayTimeUnit":"ms")", more, R"(,"traceEvents":[)", events_, "]}\n");
  events_.clear();
  return text;
}

}  // namespace soapstone::timeline
