// StorageSharing: puts what a kernel writes where that lies which it reads, where nobody reads it
// afterwards. Used by those who make lists of values (step_graph.h, section_plan.h).
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/step_graph.h"

namespace soapstone::models {

class StorageSharing {
 public:
  // All values, with their lifetimes; outlives it. Aliases have their storages already.
  explicit StorageSharing(std::vector<Value>* values);

  // For a node that may write `to` where it reads `from`, one of its arguments. Does it if both are
  // as large, `to` has no other's storage, no other argument lies there under any name, and no
  // value there is read after the node.
  void Share(uint32_t node, ValueId from, const ValueIds& arguments, ValueId to);

 private:
  std::vector<Value>& values_;
  std::vector<ValueIds> in_;       // by storage: the values in it
  std::vector<uint32_t> last_in_;  // by storage: the last node that reads one of them
};

}  // namespace soapstone::models
