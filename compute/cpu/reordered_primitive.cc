#include "compute/cpu/reordered_primitive.h"

#include <algorithm>

#include "glog/logging.h"

namespace soapstone::compute {

void RelaidPrimitive::Tell(int arg, const DnnlDesc& given, const DnnlDesc& wanted, bool is_input,
                           Arena* scratch) {
  Tensor tensor = {.arg = arg, .is_input = is_input, .reorder = std::nullopt, .offset = 0};
  if (given != wanted) {
    tensor.reorder.emplace(*context_, is_input ? given : wanted, is_input ? wanted : given,
                           scratch);
    tensor.offset = scratch->Take(wanted.get_size());
  }
  primitive_.Bind(arg, wanted);
  tensors_.push_back(std::move(tensor));
}

void RelaidPrimitive::Run(std::initializer_list<DnnlPrimitive::Handle> handles, void* scratch) {
  for (const DnnlPrimitive::Handle& handle : handles) {
    const auto tensor = std::find_if(tensors_.begin(), tensors_.end(),
                                     [&](const Tensor& t) { return t.arg == handle.arg; });
    CHECK(tensor != tensors_.end()) << "argument " << handle.arg;
    if (!tensor->reorder) {
      primitive_.Set(handle.arg, handle.data);
      continue;
    }
    void* relaid = At<void>(scratch, tensor->offset);
    if (tensor->is_input) tensor->reorder->Run(handle.data, relaid, scratch);
    primitive_.Set(handle.arg, relaid);
  }
  primitive_.Run({}, scratch);
  for (const DnnlPrimitive::Handle& handle : handles) {
    for (Tensor& tensor : tensors_) {
      if (tensor.arg != handle.arg || tensor.is_input || !tensor.reorder) continue;
      tensor.reorder->Run(At<void>(scratch, tensor.offset), const_cast<void*>(handle.data),
                          scratch);
    }
  }
}

}  // namespace soapstone::compute
