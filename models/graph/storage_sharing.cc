#include "models/graph/storage_sharing.h"

#include <algorithm>

namespace soapstone::models {

StorageSharing::StorageSharing(std::vector<Value>* values)
    : values_(*values), in_(values->size()), last_in_(values->size(), 0) {
  for (ValueId id = 0; id < values_.size(); ++id) {
    const Value& value = values_[id];
    in_[value.storage].push_back(id);
    last_in_[value.storage] = std::max(last_in_[value.storage], value.last);
  }
}

void StorageSharing::Share(uint32_t node, ValueId from, const ValueIds& arguments, ValueId to) {
  if (from == kNoValue || to == kNoValue) return;
  const ValueId storage = values_[from].storage;
  const auto lies_there = [&](ValueId id) {
    return id != kNoValue && values_[id].storage == storage;
  };
  if (std::count_if(arguments.begin(), arguments.end(), lies_there) > 1) return;
  const ValueId own = values_[to].storage;
  if (own != to || storage == own || values_[from].bytes != values_[to].bytes) return;
  if (values_[storage].bytes != values_[to].bytes || last_in_[storage] > node) return;
  for (ValueId value : in_[own]) values_[value].storage = storage;
  in_[storage].insert(in_[storage].end(), in_[own].begin(), in_[own].end());
  in_[own].clear();
  last_in_[storage] = std::max(last_in_[storage], last_in_[own]);
}

}  // namespace soapstone::models
