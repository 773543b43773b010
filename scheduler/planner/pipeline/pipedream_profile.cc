#include "scheduler/planner/pipeline/pipedream_profile.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace soapstone::planner {
namespace {

constexpr absl::string_view kBetween = " -- ";
constexpr absl::string_view kFields[] = {"forward_compute_time", "backward_compute_time",
                                         "activation_size", "parameter_size"};

// "node7" → 7; other names behind all of those.
uint64_t NumberIn(const std::string& name) {
  uint64_t number = 0;
  const absl::string_view digits =
      absl::string_view(name).substr(name.find_last_not_of("0123456789") + 1);
  return absl::SimpleAtoi(digits, &number) ? number : UINT64_MAX;
}

class ProfileReader {
 public:
  explicit ProfileReader(const std::string& file) : file_(file) {}

  absl::StatusOr<Profile> Read(const std::string& text) {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      const absl::string_view content = absl::StripAsciiWhitespace(line);
      if (content.empty()) continue;
      SOAP_RETURN_IF_ERROR(line[0] == '\t' ? ReadEdge(content) : ReadNode(content));
    }
    if (nodes_.empty()) return absl::InvalidArgumentError(absl::StrCat(file_, ": it has no nodes"));
    return Ordered();
  }

 private:
  struct Edge {
    std::string from, to;
    size_t line = 0;
  };

  template <class... Pieces>
  absl::Status Refuse(size_t line, const Pieces&... pieces) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ":", line, ": ", pieces...));
  }

  absl::Status ReadEdge(absl::string_view content) {
    const std::vector<std::string> ends = absl::StrSplit(content, kBetween);
    if (ends.size() != 2) {
      return Refuse(line_, "an edge is '<tab>node1 -- node2', not '", content, "'");
    }
    edges_.push_back({ends[0], ends[1], line_});
    return absl::OkStatus();
  }

  absl::Status ReadNode(absl::string_view content) {
    std::vector<absl::string_view> pieces = absl::StrSplit(content, kBetween);
    if (pieces.size() > 3 && absl::StartsWith(pieces.back(), "stage_id=")) pieces.pop_back();
    if (pieces.size() < 3) {
      return Refuse(line_, "a node is 'node1 -- what -- forward_compute_time=.., ..', not '",
                    content, "'");
    }
    ProfileNode node = {.name = std::string(pieces[0])};
    const size_t begin = pieces[0].size() + kBetween.size();
    const auto end = static_cast<size_t>(pieces.back().data() - content.data()) - kBetween.size();
    node.what = std::string(content.substr(begin, end - begin));
    SOAP_RETURN_IF_ERROR(ReadFields(pieces.back(), &node));
    if (!nodes_.try_emplace({NumberIn(node.name), node.name}, node).second) {
      return Refuse(line_, node.name, " is there twice");
    }
    return absl::OkStatus();
  }

  absl::Status ReadFields(absl::string_view text, ProfileNode* node) {
    double* const values[] = {&node->forward_ms, &node->backward_ms, &node->activation_bytes,
                              &node->parameter_bytes};
    bool seen[std::size(kFields)] = {};
    for (const absl::string_view field : absl::StrSplit(text, ", ")) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(field, absl::MaxSplits('=', 1));
      const auto at = static_cast<size_t>(
          std::find(std::begin(kFields), std::end(kFields), pair.first) - std::begin(kFields));
      if (at == std::size(kFields)) return Refuse(line_, "there is no field '", pair.first, "'");
      if (seen[at]) return Refuse(line_, pair.first, " is there twice");
      seen[at] = true;
      if (!ReadNumber(pair.second, /*list=*/at == 2, values[at])) {
        return Refuse(line_, pair.first, ": '", pair.second, "' is no number that is at least 0");
      }
    }
    const auto missing =
        static_cast<size_t>(std::find(std::begin(seen), std::end(seen), false) - std::begin(seen));
    if (missing == std::size(kFields)) return absl::OkStatus();
    return Refuse(line_, node->name, " has no ", kFields[missing]);
  }

  // Of a list the sum.
  static bool ReadNumber(absl::string_view text, bool list, double* sum) {
    if (list && absl::ConsumePrefix(&text, "[") && !absl::ConsumeSuffix(&text, "]")) return false;
    *sum = 0;
    for (const absl::string_view item : absl::StrSplit(text, ';')) {
      double value = 0;
      if (!absl::SimpleAtod(item, &value) || !(value >= 0) || value > 1e18) return false;
      *sum += value;
    }
    return list || text.find(';') == absl::string_view::npos;
  }

  // Kahn's algorithm.
  absl::StatusOr<Profile> Ordered() const {
    std::map<std::string, std::vector<size_t>> out;  // edges
    std::map<std::string, size_t> waits;
    for (const auto& [key, node] : nodes_) waits[node.name] = 0;
    for (size_t e = 0; e < edges_.size(); ++e) {
      for (const std::string& end : {edges_[e].from, edges_[e].to}) {
        if (waits.count(end) == 0) return Refuse(edges_[e].line, "there is no node '", end, "'");
      }
      out[edges_[e].from].push_back(e);
      ++waits[edges_[e].to];
    }
    using Key = std::pair<uint64_t, std::string>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> free;
    for (const auto& [key, node] : nodes_) {
      if (waits[node.name] == 0) free.push(key);
    }
    Profile profile;
    std::map<std::string, uint32_t> index;
    for (; !free.empty(); free.pop()) {
      const ProfileNode& node = nodes_.at(free.top());
      index[node.name] = static_cast<uint32_t>(profile.nodes.size());
      profile.nodes.push_back(node);
      for (const size_t e : out[node.name]) {
        const std::string& to = edges_[e].to;
        if (--waits[to] == 0) free.push({NumberIn(to), to});
      }
    }
    if (profile.nodes.size() < nodes_.size()) {
      const Edge& edge = EdgeOfCircle(index);
      return Refuse(edge.line, "the edges run in a circle: ", edge.from, kBetween, edge.to);
    }
    for (const Edge& edge : edges_) {
      profile.edges.emplace_back(index[edge.from], index[edge.to]);
    }
    std::sort(profile.edges.begin(), profile.edges.end());
    profile.edges.erase(std::unique(profile.edges.begin(), profile.edges.end()),
                        profile.edges.end());
    return profile;
  }

  // Among nodes that could not be put in order each has one before it: going back never ends.
  const Edge& EdgeOfCircle(const std::map<std::string, uint32_t>& placed) const {
    const auto is_left = [&](const Edge& edge) {
      return placed.count(edge.from) == 0 && placed.count(edge.to) == 0;
    };
    const Edge* edge = &*std::find_if(edges_.begin(), edges_.end(), is_left);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      edge = &*std::find_if(edges_.begin(), edges_.end(), [&](const Edge& before) {
        return is_left(before) && before.to == edge->from;
      });
    }
    return *edge;
  }

  const std::string& file_;
  size_t line_ = 0;
  std::map<std::pair<uint64_t, std::string>, ProfileNode> nodes_;  // by number and name
  std::vector<Edge> edges_;
};

double Milliseconds(Nanos ns) {
  return static_cast<double>(ns) / static_cast<double>(kMillisecond);
}

bool IsInput(const ProfileNode& node) { return absl::StartsWith(node.what, "Input"); }

}  // namespace

absl::StatusOr<Profile> ParseProfile(const std::string& text, const std::string& file) {
  return ProfileReader(file).Read(text);
}

std::string TextOf(const Profile& profile) {
  std::string text;
  for (const ProfileNode& node : profile.nodes) {
    absl::StrAppendFormat(&text, "%s -- %s -- %s=%.6f, %s=%.6f, %s=%.3f, %s=%.3f\n", node.name,
                          node.what, kFields[0], node.forward_ms, kFields[1], node.backward_ms,
                          kFields[2], node.activation_bytes, kFields[3], node.parameter_bytes);
  }
  for (const auto& [from, to] : profile.edges) {
    absl::StrAppend(&text, "\t", profile.nodes[from].name, kBetween, profile.nodes[to].name, "\n");
  }
  return text;
}

Profile ProfileOf(const OpGraph& graph, const CostModel& costs, uint32_t kind) {
  Profile profile;
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const PlanOp& first = graph.ops[graph.groups[group].front()];
    profile.nodes.push_back({.name = absl::StrCat("node", group + 1),
                             .what = absl::StrCat(std::string(compute::NameOf(first.what)), "(",
                                                  NameOfGroup(graph, group), ")")});
  }
  for (const PlanOp& op : graph.ops) {
    ProfileNode& node = profile.nodes[op.group];
    models::Block whole;
    for (const models::IterationDim& dim : op.rule.dims) whole.push_back({0, dim.extent});
    const PartCost cost = costs.CostOf(op, whole, kind);
    node.forward_ms += Milliseconds(cost.forward_ns);
    node.backward_ms += Milliseconds(cost.backward_ns);
    for (const compute::TensorSpec& output : op.shapes.outputs) {
      node.activation_bytes += static_cast<double>(output.bytes());
    }
  }
  for (const PlanParam& param : graph.params) {
    if (param.ops.empty()) continue;
    const compute::TensorSpec tensor = {.shape = param.shape};
    profile.nodes[graph.ops[param.ops.front()].group].parameter_bytes +=
        static_cast<double>(tensor.bytes());
  }
  for (const PlanEdge& edge : graph.edges) {
    const uint32_t from = graph.ops[edge.from].group;
    const uint32_t to = graph.ops[edge.to].group;
    if (from != to) profile.edges.emplace_back(from, to);
  }
  std::sort(profile.edges.begin(), profile.edges.end());
  profile.edges.erase(std::unique(profile.edges.begin(), profile.edges.end()), profile.edges.end());
  return profile;
}

std::vector<uint32_t> LayerNodes(const Profile& profile) {
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < profile.nodes.size(); ++i) {
    if (!IsInput(profile.nodes[i])) nodes.push_back(i);
  }
  return nodes;
}

std::vector<PipelineLayer> LayersOf(const Profile& profile) {
  const std::vector<uint32_t> nodes = LayerNodes(profile);
  std::vector<uint32_t> last_reader(profile.nodes.size(), 0);
  for (const auto& [from, to] : profile.edges) last_reader[from] = std::max(last_reader[from], to);
  std::vector<PipelineLayer> layers;
  for (const uint32_t node : nodes) {
    const ProfileNode& of = profile.nodes[node];
    layers.push_back(
        {.compute_s = (of.forward_ms + of.backward_ms) / 1e3, .weight_bytes = of.parameter_bytes});
    for (const uint32_t producer : nodes) {
      if (producer <= node && node < last_reader[producer]) {
        layers.back().boundary_bytes += profile.nodes[producer].activation_bytes;
      }
    }
  }
  return layers;
}

}  // namespace soapstone::planner
