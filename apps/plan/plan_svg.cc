#include "apps/plan/plan_svg.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace soapstone::apps {
namespace {

using planner::TaskKind;
using planner::TimelineTask;

constexpr double kWidth = 1000;
constexpr double kLeft = 150;  // for the names of rows
constexpr double kRight = 20;  // for half of the last tick's label
constexpr double kHead = 62;   // title, legend, axis
constexpr double kRow = 18;
constexpr double kBar = 14;
constexpr double kCharacter = 5.5;  // of a bar's label, about
constexpr double kTitled = 6;       // narrower bars have no title
constexpr double kNarrow = 1;
constexpr double kLeastDrawn = 0.5;
constexpr size_t kRowsMax = 40;
constexpr size_t kDevicesUnfolded = 16;
constexpr size_t kNameMax = 60;
constexpr int kTicks = 10;  // at most

struct Look {
  TaskKind kind;
  const char* colour;
  const char* lines;  // of the pattern: a path in a square of 6; empty: none
};
// Colours that are told apart with any eyes (Okabe and Ito 2008); patterns tell them apart in grey.
constexpr std::array<Look, 5> kLooks = {{{TaskKind::kForward, "#7cc4f0", ""},
                                         {TaskKind::kBackward, "#e69f00", "M0 6L6 0"},
                                         {TaskKind::kTransfer, "#4fb99f", "M3 0V6"},
                                         {TaskKind::kGradient, "#d49ac0", "M0 3H6"},
                                         {TaskKind::kSynchronize, "#c8c8c8", "M0 0L6 6M0 6L6 0"}}};

// Bytes of the UTF-8 character that begins the text; 0: none does, or a control character.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, a half of a pair of UTF-16, beyond the last character, or no character.
  const bool forbidden =
      (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
      (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90) ||
      (byte(0) == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe);
  return forbidden ? 0 : bytes;
}

// What XML may hold of a name: cut after so many characters, others than text as '?'.
std::string XmlText(absl::string_view name) {
  std::string text;
  for (size_t at = 0, characters = 0; at < name.size(); ++characters) {
    if (characters == kNameMax) return text + "..";
    const size_t bytes = CharacterBytes(name.substr(at));
    const absl::string_view character = name.substr(at, std::max<size_t>(1, bytes));
    at += character.size();
    if (bytes == 0) {
      text += '?';
    } else if (character == "&") {
      text += "&amp;";
    } else if (character == "<") {
      text += "&lt;";
    } else if (character == ">") {
      text += "&gt;";
    } else if (character == "\"") {
      text += "&quot;";
    } else {
      absl::StrAppend(&text, character);
    }
  }
  return text;
}

struct Unit {
  const char* name;
  double ns;
};
Unit UnitFor(Nanos longest) {
  if (longest >= 2'000'000'000) return {"s", 1e9};
  if (longest >= 2'000'000) return {"ms", 1e6};
  if (longest >= 2'000) return {"\xc2\xb5s", 1e3};
  return {"ns", 1};
}
// A row's name as far as there is room for it left of the bars: its begin, and the end that tells
// devices apart.
std::string RowName(absl::string_view name) {
  constexpr size_t kBegin = 13, kEnd = 9;
  std::vector<absl::string_view> characters;
  for (size_t at = 0; at < name.size(); at += characters.back().size()) {
    characters.push_back(name.substr(at, std::max<size_t>(1, CharacterBytes(name.substr(at)))));
  }
  if (characters.size() <= kBegin + kEnd + 2) return std::string(name);
  const auto all = absl::MakeConstSpan(characters);
  return absl::StrCat(absl::StrJoin(all.first(kBegin), ""), "..",
                      absl::StrJoin(all.last(kEnd), ""));
}

std::string TimeText(Nanos ns, const Unit& unit) {
  return absl::StrFormat("%.4g", static_cast<double>(ns) / unit.ns);
}

// 1, 2 or 5 times a power of ten, of which at most kTicks go into `longest`.
Nanos TickOf(Nanos longest) {
  for (Nanos power = 1;; power *= 10) {
    for (const Nanos tick : {power, 2 * power, 5 * power}) {
      if (longest / tick <= kTicks) return tick;
    }
  }
}

// Tasks that follow each other, where one alone would not be seen.
struct Bar {
  TaskKind kind = TaskKind::kForward;
  Nanos start = 0, end = 0;
  const TimelineTask* first = nullptr;
  size_t tasks = 1;
};

// kNarrow in time.
std::vector<Bar> BarsOf(const std::vector<TimelineTask>& tasks, Nanos narrow) {
  std::vector<Bar> bars;
  bool joins = false;  // the last bar is of narrow tasks
  for (const TimelineTask& task : tasks) {
    const bool is_narrow = task.end - task.start < narrow;
    if (joins && is_narrow && task.start - bars.back().end < narrow &&
        (task.kind == bars.back().kind || bars.back().end - bars.back().start < narrow)) {
      bars.back().end = std::max(bars.back().end, task.end);
      ++bars.back().tasks;
      continue;
    }
    bars.push_back({task.kind, task.start, task.end, &task});
    joins = is_narrow;
  }
  return bars;
}

struct SvgRow {
  const Track* track = nullptr;
  size_t alike = 1;
  Nanos busy = 0;
};

std::vector<SvgRow> RowsOf(const std::vector<Track>& tracks) {
  const auto devices = static_cast<size_t>(std::count_if(
      tracks.begin(), tracks.end(), [](const Track& t) { return t.kind == TrackKind::kDevice; }));
  using Span = std::tuple<TaskKind, Nanos, Nanos>;
  std::map<std::pair<TrackKind, std::vector<Span>>, size_t> known;
  std::vector<SvgRow> rows;
  for (const Track& track : tracks) {
    std::vector<Span> spans;
    Nanos busy = 0;
    for (const TimelineTask& task : track.tasks) {
      spans.emplace_back(task.kind, task.start, task.end);
      busy += task.end - task.start;
    }
    const bool folds = track.kind != TrackKind::kDevice || devices > kDevicesUnfolded;
    const auto [it, is_new] = known.try_emplace({track.kind, std::move(spans)}, rows.size());
    if (folds && !is_new) {
      ++rows[it->second].alike;
    } else {
      rows.push_back({&track, 1, busy});
    }
  }
  return rows;
}

// Takes out rows until kRowsMax are left, those that are busy shortest. Returns how many tracks
// they stand for.
size_t DropRows(std::vector<SvgRow>* rows) {
  if (rows->size() <= kRowsMax) return 0;
  std::vector<Nanos> busy;
  for (const SvgRow& row : *rows) busy.push_back(row.busy);
  const auto last = static_cast<std::ptrdiff_t>(kRowsMax);
  std::nth_element(busy.begin(), busy.begin() + last, busy.end(), std::greater<>());
  const Nanos least = busy[kRowsMax];  // the longest of those that go, if none is equal
  size_t dropped = 0;
  std::vector<SvgRow> kept;
  for (const SvgRow& row : *rows) {
    if (row.busy > least) {
      kept.push_back(row);
    } else {
      dropped += row.alike;
    }
  }
  // Where all are equal, the first.
  if (kept.empty()) {
    kept.assign(rows->begin(), rows->begin() + last);
    dropped = 0;
    for (size_t i = kRowsMax; i < rows->size(); ++i) dropped += (*rows)[i].alike;
  }
  *rows = std::move(kept);
  return dropped;
}

class SvgDrawing {
 public:
  explicit SvgDrawing(const DrawnStep& step)
      : step_(step), tracks_(TracksOf(step)), rows_(RowsOf(tracks_)), dropped_(DropRows(&rows_)) {
    for (const TimelineTask& task : step.timeline) end_ = std::max(end_, task.end);
    scale_ = (kWidth - kLeft - kRight) / static_cast<double>(end_);
    unit_ = UnitFor(end_);
  }

  std::string Draw() {
    const std::vector<std::string> notes = Notes();
    bottom_ = kHead + kRow * static_cast<double>(rows_.size());
    const double height = bottom_ + 8 + kRow * static_cast<double>(notes.size());
    absl::StrAppendFormat(
        &svg_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 "
        "%.0f %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n",
        kWidth, height, kWidth, height);
    DefineLooks();
    absl::StrAppendFormat(&svg_,
                          "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n"
                          "<text x=\"4\" y=\"15\" font-size=\"13\">%s, batch %d, on %d devices of "
                          "%s: a step of %s %s</text>\n",
                          kWidth, height, XmlText(step_.graph->model), step_.graph->batch,
                          step_.machine->devices().size(), XmlText(step_.machine->name()),
                          TimeText(end_, unit_), unit_.name);
    Legend();
    Axis();
    double y = kHead;
    for (const SvgRow& row : rows_) {
      DrawRow(row, y);
      y += kRow;
    }
    for (size_t i = 0; i < notes.size(); ++i) {
      Text(4, bottom_ + 14 + kRow * static_cast<double>(i), notes[i], " class=\"note\"");
    }
    absl::StrAppend(&svg_, "</svg>\n");
    return std::move(svg_);
  }

 private:
  void Text(double x, double y, const std::string& xml, const char* attributes = "") {
    absl::StrAppendFormat(&svg_, "<text x=\"%.4g\" y=\"%.4g\"%s>%s</text>\n", x, y, attributes,
                          xml);
  }

  void DefineLooks() {
    std::string style = ".note,.axis{fill:#555}.axis{text-anchor:middle}.label{font-size:9px}";
    absl::StrAppend(&svg_, "<defs>\n");
    for (const Look& look : kLooks) {
      const char* name = KindText(look.kind);
      if (*look.lines == '\0') {
        absl::StrAppend(&style, ".", name, "{fill:", look.colour, "}");
        continue;
      }
      absl::StrAppend(&style, ".", name, "{fill:url(#look-", name, ")}");
      absl::StrAppendFormat(
          &svg_,
          "<pattern id=\"look-%s\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
          "<rect width=\"6\" height=\"6\" fill=\"%s\"/>"
          "<path d=\"%s\" stroke=\"#000\" stroke-opacity=\".4\" fill=\"none\"/></pattern>\n",
          name, look.colour, look.lines);
    }
    absl::StrAppend(&svg_, "</defs>\n<style>", style, "</style>\n");
  }

  // Of the kinds that are there.
  void Legend() {
    std::set<TaskKind> kinds;
    for (const TimelineTask& task : step_.timeline) kinds.insert(task.kind);
    double x = kLeft;
    for (const Look& look : kLooks) {
      if (kinds.count(look.kind) == 0) continue;
      absl::StrAppendFormat(&svg_,
                            "<path class=\"%s\" stroke=\"#555\" d=\"M%.0f 24h24v12h-24z\"/>\n",
                            KindText(look.kind), x);
      const std::string text = LegendText(look.kind);
      Text(x + 30, 34, text, " class=\"legend\"");
      x += 52 + 6 * static_cast<double>(text.size());
    }
  }

  static std::string LegendText(TaskKind kind) {
    switch (kind) {
      case TaskKind::kTransfer:
        return "transfer, forward";
      case TaskKind::kGradient:
        return "transfer, backward";
      default:
        return KindText(kind);
    }
  }

  void Axis() {
    const Nanos tick = TickOf(end_);
    for (Nanos at = 0; at <= end_; at += tick) {
      const double x = X(at);
      absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %.0fV%.0f\" stroke=\"#ddd\"/>\n", x, kHead - 4,
                            bottom_);
      Text(x, kHead - 8, absl::StrCat(TimeText(at, unit_), " ", unit_.name), " class=\"axis\"");
    }
  }

  double X(Nanos at) const { return kLeft + static_cast<double>(at) * scale_; }

  std::string TitleOf(const Bar& bar) const {
    const std::string what = bar.tasks == 1 ? XmlText(TaskName(*step_.graph, *bar.first))
                                            : absl::StrCat(bar.tasks, " tasks");
    return absl::StrCat(what, ", ", KindText(bar.kind), ", ", TimeText(bar.start, unit_), " to ",
                        TimeText(bar.end, unit_), " ", unit_.name);
  }

  // Bars of a kind in one group; those without a title in one path.
  void DrawRow(const SvgRow& row, double y) {
    std::string name = XmlText(RowName(row.track->name));
    if (row.alike > 1) absl::StrAppend(&name, " \xc3\x97 ", row.alike);
    Text(4, y + 11, name);
    const auto narrow = static_cast<Nanos>(kNarrow / scale_);
    const std::vector<Bar> bars = BarsOf(row.track->tasks, narrow);
    absl::StrAppendFormat(&svg_, "<g transform=\"translate(0,%.0f)\">\n", y);
    for (const Look& look : kLooks) DrawBars(bars, look.kind);
    for (const Bar& bar : bars) Label(bar);
    absl::StrAppend(&svg_, "</g>\n");
  }

  void DrawBars(const std::vector<Bar>& bars, TaskKind kind) {
    std::string untitled;
    std::string titled;
    for (const Bar& bar : bars) {
      if (bar.kind != kind) continue;
      const double width = std::max(kLeastDrawn, static_cast<double>(bar.end - bar.start) * scale_);
      const std::string path =
          absl::StrFormat("M%.1f 0h%.1fv%.0fh-%.1fz", X(bar.start), width, kBar, width);
      if (width < kTitled) {
        untitled += path;
      } else {
        absl::StrAppend(&titled, "<path d=\"", path, "\"><title>", TitleOf(bar),
                        "</title></path>\n");
      }
    }
    if (titled.empty() && untitled.empty()) return;
    absl::StrAppend(&svg_, "<g class=\"", KindText(kind), "\">\n");
    if (!untitled.empty()) absl::StrAppend(&svg_, "<path d=\"", untitled, "\"/>\n");
    if (!titled.empty()) {
      absl::StrAppend(&svg_, "<g stroke=\"#fff\" stroke-width=\".7\">\n", titled, "</g>\n");
    }
    absl::StrAppend(&svg_, "</g>\n");
  }

  // The operator's name, where the bar has room for it.
  void Label(const Bar& bar) {
    if (bar.tasks > 1 || (bar.kind != TaskKind::kForward && bar.kind != TaskKind::kBackward)) {
      return;
    }
    const std::string name = TaskName(*step_.graph, *bar.first);
    const double room = static_cast<double>(bar.end - bar.start) * scale_ - 4;
    if (static_cast<double>(name.size()) * kCharacter > room) return;
    Text(X(bar.start) + 2, 10, XmlText(name), " class=\"label\"");
  }

  // What is not drawn.
  std::vector<std::string> Notes() const {
    size_t busy_links = 0;
    size_t busy_servers = 0;
    for (const Track& track : tracks_) {
      busy_links += track.kind == TrackKind::kLink ? 1 : 0;
      busy_servers += track.kind == TrackKind::kServer ? 1 : 0;
    }
    const size_t idle_links = step_.machine->links().size() - busy_links;
    const size_t idle_servers = step_.machine->servers().size() - busy_servers;
    std::vector<std::string> notes;
    if (idle_links > 0 || idle_servers > 0) {
      std::string note = absl::StrCat("Not drawn, as they do nothing: ", idle_links, " of ",
                                      step_.machine->links().size(), " links");
      if (!step_.machine->servers().empty()) {
        absl::StrAppend(&note, ", ", idle_servers, " of ", step_.machine->servers().size(),
                        " servers");
      }
      notes.push_back(std::move(note));
    }
    if (dropped_ > 0) {
      notes.push_back(absl::StrCat("Not drawn for want of room: ", dropped_,
                                   " devices, links and servers that do least"));
    }
    return notes;
  }

  const DrawnStep& step_;
  const std::vector<Track> tracks_;
  std::vector<SvgRow> rows_;
  const size_t dropped_;
  Nanos end_ = 1;
  double scale_ = 1;
  Unit unit_ = {"ns", 1};
  double bottom_ = 0;
  std::string svg_;
};

}  // namespace

std::string PlanSvg(const DrawnStep& step) { return SvgDrawing(step).Draw(); }

}  // namespace soapstone::apps
