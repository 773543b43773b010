#include "scheduler/planner/search/space.h"

#include <algorithm>
#include <map>
#include <utility>

#include "scheduler/planner/search/proportional_split.h"

namespace soapstone::planner {
namespace {

uint32_t ProductOf(const std::vector<uint32_t>& degrees) {
  uint32_t product = 1;
  for (uint32_t degree : degrees) product *= degree;
  return product;
}

// All vectors of degrees up to `max` whose product divides `devices`.
void Enumerate(const std::vector<uint32_t>& max, uint32_t devices, std::vector<uint32_t>* prefix,
               std::vector<std::vector<uint32_t>>* all) {
  if (prefix->size() == max.size()) {
    all->push_back(*prefix);
    return;
  }
  for (uint32_t degree = 1; degree <= std::min(max[prefix->size()], devices); ++degree) {
    if (devices % degree != 0) continue;
    prefix->push_back(degree);
    Enumerate(max, devices / degree, prefix, all);
    prefix->pop_back();
  }
}

void PlaceBlock(uint32_t first, uint32_t stride, uint32_t parts, std::vector<uint32_t>* devices) {
  devices->resize(parts);
  for (uint32_t i = 0; i < parts; ++i) (*devices)[i] = first + i * stride;
}

bool AreUnlike(const std::vector<Device>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const Device& device) { return device.kind != devices[0].kind; });
}

}  // namespace

Space::Space(const OpGraph* graph, const Machine* machine, SpaceOptions options)
    : graph_(graph),
      machine_(machine),
      devices_(static_cast<uint32_t>(machine->devices().size())),
      uneven_(options.uneven && AreUnlike(machine->devices())),
      speeds_(SpeedsOf(*machine)) {
  std::map<std::vector<uint32_t>, uint32_t> lists;
  for (const PlanOp& op : graph->ops) {
    std::vector<uint32_t> max;
    for (const models::IterationDim& dim : op.rule.dims) {
      max.push_back(std::min(devices_, DegreeMax(dim)));
    }
    const auto [it, is_new] = lists.try_emplace(max, degrees_.size());
    list_of_op_.push_back(it->second);
    if (!is_new) continue;
    std::vector<std::vector<uint32_t>> all;
    std::vector<uint32_t> prefix;
    Enumerate(max, devices_, &prefix, &all);
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return ProductOf(a) < ProductOf(b); });
    std::vector<uint32_t> begins;
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (i == 0 || ProductOf(all[i]) != ProductOf(all[i - 1])) begins.push_back(i);
    }
    begins.push_back(static_cast<uint32_t>(all.size()));
    degrees_.push_back(std::move(all));
    product_begins_.push_back(std::move(begins));
  }
}

std::vector<OpConfig> Space::Configs(uint32_t op) const {
  std::vector<OpConfig> configs;
  const auto add = [&](const OpConfig& config) {
    configs.push_back(config);
    if (!uneven_) return;
    OpConfig cut = config;
    CutInProportion(graph_->ops[op], speeds_, &cut);
    if (!cut.cuts.empty()) configs.push_back(std::move(cut));
  };
  for (const std::vector<uint32_t>& degrees : Degrees(op)) {
    const uint32_t parts = ProductOf(degrees);
    const uint32_t blocks = devices_ / parts;
    OpConfig config = {.degrees = degrees};
    for (uint32_t b = 0; b < blocks; ++b) {
      PlaceBlock(b * parts, 1, parts, &config.devices);
      add(config);
    }
    if (parts == 1 || blocks == 1) continue;
    for (uint32_t b = 0; b < blocks; ++b) {
      PlaceBlock(b, blocks, parts, &config.devices);
      add(config);
    }
  }
  return configs;
}

void Space::DrawScattered(uint32_t op, RandomSource* random, OpConfig* config) const {
  const auto& all = Degrees(op);
  config->degrees = all[random->Below(static_cast<uint32_t>(all.size()))];
  config->cuts.clear();
  config->devices.resize(ProductOf(config->degrees));
  for (uint32_t& device : config->devices) device = random->Below(devices_);
}

void Space::DrawBlock(uint32_t op, RandomSource* random, OpConfig* config) const {
  const std::vector<uint32_t>& begins = product_begins_[list_of_op_[op]];
  const uint32_t product = random->Below(static_cast<uint32_t>(begins.size()) - 1);
  const uint32_t at = begins[product] + random->Below(begins[product + 1] - begins[product]);
  config->degrees = Degrees(op)[at];
  config->cuts.clear();
  DrawDevices(random, config);
}

void Space::DrawDevices(RandomSource* random, OpConfig* config) const {
  const uint32_t parts = ProductOf(config->degrees);
  const uint32_t blocks = devices_ / parts;
  const uint32_t draw = random->Below(2 * blocks);
  if (draw < blocks) {
    PlaceBlock(draw * parts, 1, parts, &config->devices);
  } else {
    PlaceBlock(draw - blocks, blocks, parts, &config->devices);
  }
}

bool Space::Holds(uint32_t op, const std::vector<uint32_t>& degrees) const {
  const auto& dims = graph_->ops[op].rule.dims;
  if (degrees.size() != dims.size()) return false;
  uint64_t product = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (degrees[d] < 1 || degrees[d] > DegreeMax(dims[d])) return false;
    product *= degrees[d];
    if (product > devices_) return false;
  }
  return devices_ % product == 0;
}

}  // namespace soapstone::planner
