// Each fault that the lowering could have is seen by the random splits and placements.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "strategy/testing/split_fixture.h"

namespace soapstone::planner {
namespace {

using Spoil = void (*)(models::Section*);

template <typename Change>
void EachInput(models::Section* section, const Change& change) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartInput& input : section->parts[p].inputs) change(&input);
  }
}
template <typename Change>
void EachTerm(models::Section* section, const Change& change) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartOutput& output : section->parts[p].outputs) {
      for (models::Assembly& term : output.terms) change(&term);
    }
  }
}

// A row of what is read is missing.
void HaloTooShort(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) {
      if (box.move.size.size() < 3 || box.move.size[2] < 2) continue;
      --box.move.size[2];
      input->from.covered = false;
    }
  });
}
void OffByOneRow(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) {
      if (box.move.size.back() < 2) continue;
      --box.move.size.back();
      ++box.move.to.back();
    }
  });
}
void PartialSumsReplaced(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) box.adds = false;
  });
}
void GradientsReplaced(models::Section* section) {
  EachTerm(section, [](models::Assembly* term) {
    for (models::Box& box : term->boxes) box.adds = false;
  });
}
void GradientsTwice(models::Section* section) {
  EachTerm(section, [](models::Assembly* term) {
    if (term->boxes.empty()) return;
    term->boxes.push_back(term->boxes.back());
    term->boxes.back().adds = true;
  });
}
void SumsNotScaled(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    for (models::Box& box : input->from.boxes) box.scale = 1;
  });
}
void NoReluOfSums(models::Section* section) {
  EachInput(section, [](models::PartInput* input) { input->relu = false; });
}
void ZerosAroundMaxima(models::Section* section) {
  EachInput(section, [](models::PartInput* input) { input->fill = 0; });
}
void IdsNotShifted(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    if (input->rows.has_value()) input->rows = models::Range{0, input->rows->size()};
  });
}
void SamplesNotCounted(models::Section* section) {
  for (models::SectionPart& part : section->parts) part.first_sample = 0;
}
void FieldsFromTheFirstSample(models::Section* section) {
  EachInput(section, [](models::PartInput* input) {
    if (input->from.kind == models::Assembly::Kind::kField) input->from.move.from[0] = 0;
  });
}
void OneReaderForgotten(models::Section* section) {
  for (models::OutgoingBlock& block : section->outgoing) {
    if (block.backward && block.boxes.size() > 1) block.boxes.pop_back();
  }
}
void TermForgotten(models::Section* section) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartOutput& output : section->parts[p].outputs) {
      for (models::Assembly& term : output.terms) {
        if (term.boxes.size() > 1) term.boxes.pop_back();
      }
    }
  }
}

void MomentsOfOneRow(models::Section* section) {
  for (models::SectionPart& part : section->parts) {
    auto* moments = std::get_if<compute::BatchMoments>(&part.op);
    if (moments != nullptr) moments->row = 0;
  }
}
void MomentsCountAlike(models::Section* section) {
  for (models::SectionPart& part : section->parts) {
    auto* norm = std::get_if<compute::NormalizeByMoments>(&part.op);
    if (norm != nullptr) std::fill(norm->counts.begin(), norm->counts.end(), 7);
  }
}
void SamplesOfTheWholeByEachPart(models::Section* section) {
  for (models::SectionPart& part : section->parts) {
    auto* norm = std::get_if<compute::NormalizeByMoments>(&part.op);
    if (norm != nullptr) norm->samples *= static_cast<int64_t>(norm->counts.size());
  }
}

TEST(LoweringTest, EveryFaultIsSeen) {
  const std::pair<const char*, Spoil> faults[] = {
      {"halo too short", HaloTooShort},
      {"off by one row", OffByOneRow},
      {"partial sums replaced", PartialSumsReplaced},
      {"gradients replaced", GradientsReplaced},
      {"gradients twice", GradientsTwice},
      {"sums not scaled", SumsNotScaled},
      {"no relu of sums", NoReluOfSums},
      {"zeros around maxima", ZerosAroundMaxima},
      {"ids not shifted", IdsNotShifted},
      {"samples not counted", SamplesNotCounted},
      {"fields from the first sample", FieldsFromTheFirstSample},
      {"one reader forgotten", OneReaderForgotten},
      {"a region forgotten", TermForgotten},
      {"moments of one row", MomentsOfOneRow},
      {"moments count alike", MomentsCountAlike},
      {"samples of the whole by each part", SamplesOfTheWholeByEachPart}};
  for (const auto& [name, spoil] : faults) {
    int i = 0;
    while (i < 200 && WhatDiffers(RandomPair(i), spoil).empty()) ++i;
    EXPECT_LT(i, 200) << name << " lives";
    RecordProperty(absl::StrCat("pairs_to_death_", name), i + 1);
  }
}

// The reader's kernel is given a plain tensor, not one in its producer's layout.
void PlainMessages(models::Section* section) {
  EachInput(section, [&](models::PartInput* input) {
    models::Assembly& from = input->from;
    if (from.kind != models::Assembly::Kind::kPass || !from.boxes.empty()) return;
    if (from.source.kind != models::BlockSource::Kind::kMessage) return;
    from.kind = models::Assembly::Kind::kBoxes;
    from.covered = true;
    const std::vector<int64_t> zero(input->spec.shape.size(), 0);
    from.boxes = {
        {.source = from.source, .move = {.size = input->spec.shape, .from = zero, .to = zero}}};
  });
}
// Gradients of a tensor with several readers are summed from the first reader on.
void TermsAscending(models::Section* section) {
  for (uint32_t p = 0; p < section->own_parts; ++p) {
    for (models::PartOutput& output : section->parts[p].outputs) {
      std::reverse(output.terms.begin(), output.terms.end());
    }
  }
}

TEST(LoweringTest, EveryFaultOfBitsIsSeen) {
  const std::pair<const char*, Spoil> faults[] = {{"plain messages", PlainMessages},
                                                  {"terms ascending", TermsAscending}};
  for (const auto& [name, spoil] : faults) {
    int i = 0;
    while (i < 26 && LeavesTheBits(RandomPlacement(i), SeatTurns::kAscending, spoil)) ++i;
    EXPECT_LT(i, 26) << name << " lives";
    RecordProperty(absl::StrCat("models_to_death_", name), i + 1);
  }
}

}  // namespace
}  // namespace soapstone::planner
