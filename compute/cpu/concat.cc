#include "compute/cpu/concat.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compute/cpu/formats.h"
#include "compute/cpu/loops.h"

namespace soapstone::compute {
namespace {

// The layouts that are kept: images in blocks of channels, and with the channels innermost.
constexpr DnnlTag kConcatTags[] = {DnnlTag::aBcd16b, DnnlTag::aBcd8b, DnnlTag::acdb};

DnnlDesc ConcatTagged(const std::vector<int64_t>& shape, DnnlTag tag) {
  return DnnlDesc(shape, dnnl::memory::data_type::f32, tag);
}

// In the output's memory the elements of one input are `pieces` pieces, one after the other in the
// input's own memory if that has the output's layout.
struct ConcatLayout {
  DnnlTag tag = DnnlTag::undef;  // undef: plain
  int64_t pieces = 1;
  DnnlDesc Of(const std::vector<int64_t>& shape) const {
    return tag == DnnlTag::undef ? PlainDesc(shape) : ConcatTagged(shape, tag);
  }
};

ConcatLayout PlainConcat(const Concat& op, const std::vector<int64_t>& shape) {
  ConcatLayout layout;
  for (int64_t i = 0; i < op.axis; ++i) layout.pieces *= shape[static_cast<size_t>(i)];
  return layout;
}

// That of the first input that is not plain, where every input ends with a whole block: the padding
// of one must not come to lie between channels.
ConcatLayout ConcatLayoutOf(const Concat& op, const KernelRequest& request) {
  const std::vector<int64_t>& shape = request.outputs[0].shape;
  const auto first = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [](const Format& format) { return !format.plain(); });
  if (first == request.inputs.end() || shape.size() != 4 || op.axis != 1) {
    return PlainConcat(op, shape);
  }
  for (DnnlTag tag : kConcatTags) {
    if (DescOf(*first) != ConcatTagged(first->spec.shape, tag)) continue;
    if (tag == DnnlTag::acdb) return {tag, shape[0] * shape[2] * shape[3]};
    const int64_t block = tag == DnnlTag::aBcd16b ? 16 : 8;
    const bool whole =
        std::all_of(request.inputs.begin(), request.inputs.end(),
                    [&](const Format& format) { return format.spec.shape[1] % block == 0; });
    if (whole) return {tag, shape[0]};
  }
  return PlainConcat(op, shape);
}

// One input's place in the output.
struct ConcatPart {
  int64_t begin = 0, length = 0;              // of a piece, in floats
  std::optional<DnnlReorder> relay, unrelay;  // if the input has another layout
};

class ConcatKernel : public CpuKernel {
 public:
  ConcatKernel(KernelPlan plan, const CpuContext& context, std::vector<ConcatPart> parts,
               int64_t pieces, int64_t stride)
      : CpuKernel(std::move(plan), context),
        parts_(std::move(parts)),
        pieces_(pieces),
        stride_(stride) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      ConcatPart& part = parts_[i];
      float* y = static_cast<float*>(args.outputs[0]);
      if (part.relay) {
        part.relay->Run(args.inputs[i], y, args.scratch);
        continue;
      }
      CopyPieces(context(), {.from = static_cast<const float*>(args.inputs[i]),
                             .to = y + part.begin,
                             .pieces = pieces_,
                             .length = part.length,
                             .from_stride = part.length,
                             .to_stride = stride_});
    }
  }

  void RunBackward(const BackwardArgs& args) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      ConcatPart& part = parts_[i];
      float* dx = static_cast<float*>(args.input_grads[i]);
      if (dx == nullptr) continue;
      const float* dy = static_cast<const float*>(args.output_grads[0]);
      if (part.unrelay) {
        part.unrelay->Run(dy, dx, args.scratch);
        continue;
      }
      CopyPieces(context(), {.from = dy + part.begin,
                             .to = dx,
                             .pieces = pieces_,
                             .length = part.length,
                             .from_stride = stride_,
                             .to_stride = part.length});
    }
  }

 private:
  std::vector<ConcatPart> parts_;
  const int64_t pieces_, stride_;
};

std::unique_ptr<Kernel> MakeConcatKernel(const Concat& op, const KernelRequest& request,
                                         const CpuContext& context) {
  const ConcatLayout layout = ConcatLayoutOf(op, request);
  const DnnlDesc y = layout.Of(request.outputs[0].shape);
  Arena forward, backward;
  std::vector<ConcatPart> parts;
  int64_t begin = 0;
  dnnl::memory::dims offset(request.outputs[0].shape.size(), 0);
  for (const Format& x : request.inputs) {
    ConcatPart part = {.begin = begin, .length = x.spec.elements() / layout.pieces};
    if (DescOf(x) != layout.Of(x.spec.shape)) {
      const DnnlDesc place = y.submemory_desc(x.spec.shape, offset);
      part.relay.emplace(context, DescOf(x), place, &forward);
      part.unrelay.emplace(context, place, DescOf(x), &backward);
    }
    begin += part.length;
    offset[static_cast<size_t>(op.axis)] += x.spec.shape[static_cast<size_t>(op.axis)];
    parts.push_back(std::move(part));
  }
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], y)},
                     .forward_scratch_bytes = forward.bytes(),
                     .backward_scratch_bytes = backward.bytes(),
                     .backward_reads_input = std::vector<bool>(request.inputs.size(), false),
                     .backward_reads_output = {false}};
  return std::make_unique<ConcatKernel>(std::move(plan), context, std::move(parts), layout.pieces,
                                        begin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeConcat(const Concat& op, const KernelRequest& request,
                                                   const CpuContext& context) {
  return GuardedMake(request, context, [&] { return MakeConcatKernel(op, request, context); });
}

}  // namespace soapstone::compute
