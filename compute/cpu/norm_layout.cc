#include "compute/cpu/norm_layout.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "compute/cpu/formats.h"

namespace soapstone::compute {

std::optional<NormLayout> NormLayoutOf(const Format& x) {
  const std::vector<int64_t>& shape = x.spec.shape;
  const int64_t n = shape[0];
  const int64_t c = shape[1];
  const int64_t places = n * c == 0 ? 0 : x.spec.elements() / (n * c);
  if (x.plain()) {
    if (places == 1) return NormLayout{.samples = 1, .blocks = 1, .places = n, .width = c};
    return NormLayout{.samples = n, .blocks = c, .places = places, .width = 1};
  }
  if (shape.size() != 4) return std::nullopt;
  const DnnlDesc desc = DescOf(x);
  const auto lies = [&](DnnlTag tag) {
    return desc == DnnlDesc(shape, dnnl::memory::data_type::f32, tag);
  };
  if (lies(DnnlTag::nhwc)) {
    return NormLayout{.samples = n, .blocks = 1, .places = places, .width = c};
  }
  for (const auto& [tag, width] : {std::pair(DnnlTag::nChw16c, 16), std::pair(DnnlTag::nChw8c, 8),
                                   std::pair(DnnlTag::nChw4c, 4)}) {
    if (lies(tag)) {
      return NormLayout{
          .samples = n, .blocks = (c + width - 1) / width, .places = places, .width = width};
    }
  }
  return std::nullopt;
}

}  // namespace soapstone::compute
