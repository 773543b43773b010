// What changed from one checkpoint to another. A part of the command's shell.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/image.h"

namespace soapstone::apps {

// Of a tensor, or of a table's rows that both have.
struct ValuesChange {
  uint64_t elements = 0;
  uint64_t changed = 0;  // of them: other bits
  double relative = 0;   // ‖b − a‖ / ‖a‖; of zeros ‖b‖
  double largest = 0;    // |b − a|
};

struct TensorChange {
  std::string name;
  std::string only;  // "first" or "second": the other has no such tensor
  bool reshaped = false;
  ValuesChange values;  // where both have it in one shape
};

struct TableChange {
  std::string name;
  std::string only;
  bool reshaped = false;  // rows of other lengths
  uint64_t rows = 0;      // that both have
  uint64_t gone = 0, made = 0;
  ValuesChange values;
};

// Not compared: what the optimizer remembers. By name. Errors: the images'.
absl::StatusOr<std::vector<TensorChange>> TensorChanges(checkpoint::Image* a, checkpoint::Image* b);
absl::StatusOr<std::vector<TableChange>> TableChanges(checkpoint::Image* a, checkpoint::Image* b);

// Of which checkpoint, and of which job.
struct ComparedCheckpoint {
  int64_t clock = 0;
  std::string meaning;
};
struct DiffText {
  nlohmann::ordered_json json;
  std::string text;
};
DiffText TextOf(const ComparedCheckpoint& first, const ComparedCheckpoint& second,
                const std::vector<TensorChange>& tensors, const std::vector<TableChange>& tables);

}  // namespace soapstone::apps
