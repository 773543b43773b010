// SectionBuilder: makes the section of one seat of a team: its parts, where their inputs and
// gradients come from, what it gives and takes, and its steps. Called by the lowering alone.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/graph/section.h"
#include "strategy/order.h"
#include "strategy/team_parts.h"

namespace soapstone::planner {

struct SeatProgram {
  models::Section section;
  std::vector<TaskRef> parts;  // of the section: the own ones, forward
};

class SectionBuilder {
 public:
  // team: outlives it. tasks: of the seat, in its order.
  SectionBuilder(const TeamParts* team, uint32_t seat, const std::vector<TaskRef>& tasks)
      : team_(*team), graph_(team->graph()), seat_(seat), tasks_(tasks) {}

  SeatProgram Build() &&;

 private:
  void AddMessages();
  // In the section; a part of another seat is added.
  uint32_t LocalPart(uint32_t op, uint32_t part);
  models::SectionPart MakePart(uint32_t op, uint32_t part, bool own);
  uint32_t ParamBlockOf(uint32_t param, const models::PartTensor& tensor);
  models::PartInput MakeInput(uint32_t op, uint32_t part, const models::PartTensor& tensor,
                              bool own);
  void SetPass(const Contribution& given, const models::PartTensor& tensor, bool own,
               models::PartInput* input);
  void SetBoxes(const std::vector<Contribution>& given, const models::PartTensor& tensor,
                models::PartInput* input);
  models::PartOutput MakeOutput(uint32_t op, uint32_t part, const models::PartTensor& tensor,
                                bool own);
  models::Assembly MakeTerm(uint32_t edge, uint32_t part, const models::PartTensor& tensor);
  void FillOutgoing(uint32_t message, models::OutgoingBlock* block);
  void AddSteps();
  TaskRef ReaderOf(uint32_t message, const std::map<TaskRef, size_t>& place) const;
  TaskRef MakerOf(uint32_t message, const std::map<TaskRef, size_t>& place) const;

  const TeamParts& team_;
  const OpGraph& graph_;
  const uint32_t seat_;
  const std::vector<TaskRef>& tasks_;
  SeatProgram made_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> parts_;  // (operator, part) → in the section
  std::map<uint32_t, uint32_t> incoming_, outgoing_;         // message → in the section
  std::vector<std::pair<uint32_t, uint32_t>> others_;        // (operator, part) of other seats
};

}  // namespace soapstone::planner
