#include "strategy/section_builder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "models/ops/part.h"

namespace soapstone::planner {
namespace {

using models::Assembly;
using models::Block;
using models::BlockSource;
using models::Box;
using models::Move;
using models::PartOperator;
using models::PartTensor;
using models::Section;
using models::SectionPart;
using models::SectionStep;

std::vector<int64_t> SizeOf(const Block& block) {
  std::vector<int64_t> size;
  for (const models::Range& range : block) size.push_back(range.size());
  return size;
}

bool Overlap(const Move& a, const Move& b) {
  for (size_t i = 0; i < a.size.size(); ++i) {
    if (a.to[i] + a.size[i] <= b.to[i] || b.to[i] + b.size[i] <= a.to[i]) return false;
  }
  return true;
}
bool SamePlace(const Move& a, const Move& b) { return a.to == b.to && a.size == b.size; }

// Boxes are written, but where an earlier one has been they are added. Where they overlap in part
// all are added to zeros. elements: of the tensor.
void SetWrites(int64_t elements, Assembly* from) {
  int64_t written = 0;
  bool in_part = false;
  for (size_t i = 0; i < from->boxes.size(); ++i) {
    Box& box = from->boxes[i];
    for (size_t j = 0; j < i; ++j) {
      if (SamePlace(from->boxes[j].move, box.move)) {
        box.adds = true;
      } else if (Overlap(from->boxes[j].move, box.move)) {
        in_part = true;
      }
    }
    if (!box.adds) written += box.move.elements();
  }
  from->covered = !in_part && written == elements;
  if (!in_part) return;
  for (Box& box : from->boxes) box.adds = true;
}

// Where a region of the whole tensor begins in a part's.
std::vector<int64_t> PlaceIn(const Block& region, const PartTensor& tensor) {
  std::vector<int64_t> place;
  for (size_t i = 0; i < region.size(); ++i) {
    place.push_back(region[i].begin - tensor.block[i].begin + tensor.before[i]);
  }
  return place;
}

// A region of the producer's output, as the consumer's part has it around its input.
std::vector<int64_t> PlaceInInput(const Block& region, const PlanEdge& edge,
                                  const PartTensor& tensor) {
  std::vector<int64_t> place;
  for (size_t i = 0; i < region.size(); ++i) {
    place.push_back(region[i].begin + edge.offset[i] - tensor.block[i].begin + tensor.before[i]);
  }
  return place;
}

void SetField(const PlanFeed& feed, const PartTensor& tensor, models::PartInput* input) {
  input->from.kind = Assembly::Kind::kField;
  input->from.field = feed.field;
  Move& move = input->from.move;
  move.size = SizeOf(tensor.block);
  for (size_t i = 0; i < tensor.block.size(); ++i) {
    move.from.push_back(tensor.block[i].begin - feed.offset[i]);
    move.to.push_back(tensor.before[i]);
  }
  input->from.covered = move.elements() == input->spec.elements();
}

}  // namespace

SeatProgram SectionBuilder::Build() && {
  for (const TaskRef& task : tasks_) {
    if (task.backward) continue;
    parts_[{task.op, task.part}] = static_cast<uint32_t>(made_.parts.size());
    made_.parts.push_back(task);
  }
  Section& section = made_.section;
  section.own_parts = static_cast<uint32_t>(made_.parts.size());
  AddMessages();
  for (const TaskRef& task : made_.parts) {
    SectionPart part = MakePart(task.op, task.part, true);
    section.parts.push_back(std::move(part));
  }
  // Others' parts whose formats are asked for, and those that these ask for.
  for (size_t i = 0; i < others_.size(); ++i) {
    const auto [op, index] = others_[i];
    SectionPart part = MakePart(op, index, false);
    section.parts.push_back(std::move(part));
  }
  for (const auto& [message, at] : outgoing_) FillOutgoing(message, &section.outgoing[at]);
  AddSteps();
  return std::move(made_);
}

void SectionBuilder::AddMessages() {
  Section& section = made_.section;
  for (uint32_t m = 0; m < team_.messages().size(); ++m) {
    const BlockMessage& message = team_.messages()[m];
    if (message.to == seat_) {
      incoming_[m] = static_cast<uint32_t>(section.incoming.size());
      section.incoming.push_back({.number = m,
                                  .seat = message.from,
                                  .size = SizeOf(message.region),
                                  .backward = message.backward});
    }
    if (message.from == seat_) {
      outgoing_[m] = static_cast<uint32_t>(section.outgoing.size());
      section.outgoing.push_back({.number = m,
                                  .seat = message.to,
                                  .size = SizeOf(message.region),
                                  .backward = message.backward});
    }
  }
}

uint32_t SectionBuilder::LocalPart(uint32_t op, uint32_t part) {
  const auto [it, is_new] = parts_.try_emplace({op, part}, static_cast<uint32_t>(parts_.size()));
  if (is_new) others_.emplace_back(op, part);
  return it->second;
}

SectionPart SectionBuilder::MakePart(uint32_t k, uint32_t p, bool own) {
  const PlanOp& op = graph_.ops[k];
  const PartOperator& what = team_.part(k, p);
  const Block block = team_.BlockOf(k, p);
  SectionPart part = {.name = op.name, .op = what.op, .model_op = op.model_op};
  if (team_.PartsOf(k) > 1) absl::StrAppend(&part.name, "[", p, "]");
  part.first_sample = op.first_sample;
  part.micro_batch = op.micro_batch;
  if (op.rule.dims[0].kind == models::DimKind::kSample) part.first_sample += block[0].begin;
  part.backward = HasBackward(graph_, op);
  for (uint32_t i = 0; i < what.inputs.size(); ++i) {
    part.inputs.push_back(MakeInput(k, p, what.inputs[i], own));
  }
  for (uint32_t j = 0; j < what.outputs.size(); ++j) {
    part.outputs.push_back(MakeOutput(k, p, what.outputs[j], own));
  }
  for (const PartTensor& param : what.params) {
    part.param_shapes.push_back(param.shape());
    if (own) part.params.push_back(ParamBlockOf(op.params[param.source], param));
  }
  return part;
}

uint32_t SectionBuilder::ParamBlockOf(uint32_t param, const PartTensor& tensor) {
  std::vector<models::ParamBlock>& blocks = made_.section.param_blocks;
  const models::ParamBlock block = {.param = param, .tensor = tensor};
  const auto found = std::find(blocks.begin(), blocks.end(), block);
  if (found == blocks.end()) blocks.push_back(block);
  return static_cast<uint32_t>(std::find(blocks.begin(), blocks.end(), block) - blocks.begin());
}

models::PartInput SectionBuilder::MakeInput(uint32_t k, uint32_t p, const PartTensor& tensor,
                                            bool own) {
  const PlanOp& op = graph_.ops[k];
  const auto source = static_cast<uint32_t>(tensor.source);
  models::PartInput input = {
      .spec = {.type = op.shapes.inputs[source].type, .shape = tensor.shape()},
      .fill = tensor.fill};
  if (source == 0) input.rows = team_.part(k, p).rows;
  const std::vector<Contribution> given = team_.ContributionsTo(k, p, source);
  for (const uint32_t e : op.in) {
    input.gradient =
        input.gradient || (graph_.edges[e].input == source && graph_.edges[e].gradient);
  }
  for (const PlanFeed& feed : op.feeds) {
    if (feed.input == source) SetField(feed, tensor, &input);
  }
  if (given.empty()) return input;
  if (team_.Passes(k, p, tensor, given)) {
    SetPass(given[0], tensor, own, &input);
  } else {
    input.from.kind = Assembly::Kind::kBoxes;
    if (own) SetBoxes(given, tensor, &input);
  }
  return input;
}

void SectionBuilder::SetPass(const Contribution& c, const PartTensor& tensor, bool own,
                             models::PartInput* input) {
  const PlanEdge& edge = graph_.edges[c.edge];
  const Meeting& met = team_.edge(c.edge).meetings[c.meeting];
  const PartOperator& producer = team_.part(edge.from, met.producer);
  input->from.kind = Assembly::Kind::kPass;
  const uint32_t slot = SlotOf(producer.outputs, edge.output);
  const uint32_t maker = LocalPart(edge.from, met.producer);
  if (!own || team_.SeatOf(edge.from, met.producer) == seat_) {
    input->from.source = {.index = maker, .slot = slot};
    return;
  }
  input->made_by = maker;
  input->made_slot = slot;
  input->from.source = {.kind = BlockSource::Kind::kMessage,
                        .index = incoming_.at(team_.edge(c.edge).forward[c.meeting])};
  if (ElementsOf(met.region) == ElementsOf(tensor.block)) return;
  // Rows that nobody reads are not sent.
  SetBoxes({c}, tensor, input);
  input->from.kind = Assembly::Kind::kPass;
}

// Boxes in the order of edges and producers' parts, in which partial sums are added.
void SectionBuilder::SetBoxes(const std::vector<Contribution>& given, const PartTensor& tensor,
                              models::PartInput* input) {
  for (const Contribution& c : given) {
    const PlanEdge& edge = graph_.edges[c.edge];
    const Meeting& met = team_.edge(c.edge).meetings[c.meeting];
    const PartOperator& producer = team_.part(edge.from, met.producer);
    Box box = {.scale = static_cast<float>(producer.output_scale)};
    box.move.size = SizeOf(met.region);
    box.move.to = PlaceInInput(met.region, edge, tensor);
    const uint32_t message = team_.edge(c.edge).forward[c.meeting];
    if (message != kNoMessage) {
      box.source = {.kind = BlockSource::Kind::kMessage, .index = incoming_.at(message)};
      box.move.from.assign(met.region.size(), 0);
    } else {
      const uint32_t slot = SlotOf(producer.outputs, edge.output);
      box.source = {.index = LocalPart(edge.from, met.producer), .slot = slot};
      box.move.from = PlaceIn(met.region, producer.outputs[slot]);
    }
    input->relu = input->relu || producer.after_sum.has_value();
    input->from.boxes.push_back(std::move(box));
  }
  SetWrites(input->spec.elements(), &input->from);
  if (!input->relu) return;
  input->inside.size = SizeOf(tensor.block);
  input->inside.from = input->inside.to = tensor.before;
}

// Terms as GraphRunner sums them: of later operators first, of one in the order of its inputs.
models::PartOutput SectionBuilder::MakeOutput(uint32_t k, uint32_t p, const PartTensor& tensor,
                                              bool own) {
  const PlanOp& op = graph_.ops[k];
  const auto source = static_cast<uint32_t>(tensor.source);
  models::PartOutput output = {
      .spec = {.type = op.shapes.outputs[source].type, .shape = tensor.shape()}};
  if (!own) return output;
  std::vector<uint32_t> readers;
  for (const uint32_t e : op.out) {
    if (graph_.edges[e].output == source && graph_.edges[e].gradient) readers.push_back(e);
  }
  std::stable_sort(readers.begin(), readers.end(), [&](uint32_t a, uint32_t b) {
    const PlanEdge& x = graph_.edges[a];
    const PlanEdge& y = graph_.edges[b];
    return x.to != y.to ? x.to > y.to : x.input < y.input;
  });
  for (const uint32_t e : readers) {
    Assembly term = MakeTerm(e, p, tensor);
    if (term.kind != Assembly::Kind::kZeros) output.terms.push_back(std::move(term));
  }
  return output;
}

Assembly SectionBuilder::MakeTerm(uint32_t e, uint32_t p, const PartTensor& tensor) {
  const PlanEdge& edge = graph_.edges[e];
  const EdgeParts& parts = team_.edge(e);
  // By the consumers' seats, ascending; on one seat by part.
  std::vector<size_t> met_by = parts.of_producer[p];
  std::stable_sort(met_by.begin(), met_by.end(), [&](size_t a, size_t b) {
    return team_.SeatOf(edge.to, parts.meetings[a].consumer) <
           team_.SeatOf(edge.to, parts.meetings[b].consumer);
  });
  Assembly term;
  if (met_by.empty()) return term;
  term.kind = Assembly::Kind::kBoxes;
  std::vector<uint32_t> taken;
  for (const size_t m : met_by) {
    const Meeting& met = parts.meetings[m];
    Box box = {.scale = static_cast<float>(team_.part(edge.from, p).output_scale)};
    box.move.size = SizeOf(met.region);
    box.move.to = PlaceIn(met.region, tensor);
    const uint32_t message = parts.backward[m];
    if (message == kNoMessage) {
      const PartOperator& consumer = team_.part(edge.to, met.consumer);
      const uint32_t slot = SlotOf(consumer.inputs, edge.input);
      const uint32_t at = LocalPart(edge.to, met.consumer);
      const bool alone = met_by.size() == 1;
      if (alone && team_.Passes(edge.to, met.consumer, consumer.inputs[slot],
                                team_.ContributionsTo(edge.to, met.consumer, edge.input))) {
        return {.kind = Assembly::Kind::kPass, .source = {.index = at, .slot = slot}};
      }
      box.source = {.index = at, .slot = slot};
      box.move.from = PlaceInInput(met.region, edge, consumer.inputs[slot]);
    } else {
      if (std::count(taken.begin(), taken.end(), message) > 0) continue;
      taken.push_back(message);
      box.source = {.kind = BlockSource::Kind::kMessage, .index = incoming_.at(message)};
      box.move.from.assign(met.region.size(), 0);
    }
    term.boxes.push_back(std::move(box));
  }
  SetWrites(compute::TensorSpec{.shape = tensor.shape()}.elements(), &term);
  return term;
}

void SectionBuilder::FillOutgoing(uint32_t m, models::OutgoingBlock* block) {
  const BlockMessage& message = team_.messages()[m];
  const PlanEdge& edge = graph_.edges[message.edge];
  Assembly from;
  if (!message.backward) {
    const PartOperator& producer = team_.part(edge.from, message.producer);
    const uint32_t slot = SlotOf(producer.outputs, edge.output);
    from.boxes.push_back({.source = {.index = LocalPart(edge.from, message.producer), .slot = slot},
                          .move = {.size = block->size,
                                   .from = PlaceIn(message.region, producer.outputs[slot]),
                                   .to = std::vector<int64_t>(block->size.size(), 0)}});
  }
  for (size_t c = 0; message.backward && c < message.consumers.size(); ++c) {
    const PartOperator& consumer = team_.part(edge.to, message.consumers[c]);
    const uint32_t slot = SlotOf(consumer.inputs, edge.input);
    from.boxes.push_back(
        {.source = {.index = LocalPart(edge.to, message.consumers[c]), .slot = slot},
         .move = {.size = block->size,
                  .from = PlaceInInput(message.region, edge, consumer.inputs[slot]),
                  .to = std::vector<int64_t>(block->size.size(), 0)}});
  }
  SetWrites(ElementsOf(message.region), &from);
  block->boxes = std::move(from.boxes);
}

void SectionBuilder::AddSteps() {
  Section& section = made_.section;
  // Which task of this seat is the first to read a message, and which the last to make one.
  std::map<std::pair<TaskRef, bool>, std::vector<uint32_t>> at;  // (task, given) → messages
  std::map<TaskRef, size_t> place;
  for (size_t i = 0; i < tasks_.size(); ++i) place[tasks_[i]] = i;
  for (const auto& [m, index] : incoming_) {
    at[{ReaderOf(m, place), false}].push_back(index);
  }
  for (const auto& [m, index] : outgoing_) {
    at[{MakerOf(m, place), true}].push_back(index);
  }
  for (const TaskRef& task : tasks_) {
    for (const uint32_t message : at[{task, false}]) {
      section.steps.push_back({.kind = SectionStep::Kind::kTake, .index = message});
    }
    section.steps.push_back(
        {.kind = task.backward ? SectionStep::Kind::kBackward : SectionStep::Kind::kForward,
         .index = parts_.at({task.op, task.part})});
    for (const uint32_t message : at[{task, true}]) {
      section.steps.push_back({.kind = SectionStep::Kind::kGive, .index = message});
    }
  }
}

TaskRef SectionBuilder::ReaderOf(uint32_t m, const std::map<TaskRef, size_t>& place) const {
  const BlockMessage& message = team_.messages()[m];
  const PlanEdge& edge = graph_.edges[message.edge];
  CHECK_EQ(message.to, seat_);
  if (message.backward) return {.op = edge.from, .part = message.producer, .backward = true};
  TaskRef first = {.op = edge.to, .part = message.consumers[0]};
  for (const uint32_t part : message.consumers) {
    const TaskRef task = {.op = edge.to, .part = part};
    if (place.at(task) < place.at(first)) first = task;
  }
  return first;
}

TaskRef SectionBuilder::MakerOf(uint32_t m, const std::map<TaskRef, size_t>& place) const {
  const BlockMessage& message = team_.messages()[m];
  const PlanEdge& edge = graph_.edges[message.edge];
  if (!message.backward) return {.op = edge.from, .part = message.producer};
  TaskRef last = {.op = edge.to, .part = message.consumers[0], .backward = true};
  for (const uint32_t part : message.consumers) {
    const TaskRef task = {.op = edge.to, .part = part, .backward = true};
    if (place.at(task) > place.at(last)) last = task;
  }
  return last;
}

}  // namespace soapstone::planner
