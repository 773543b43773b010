#include "compute/cpu/conv_linear_kernel.h"

namespace soapstone::compute {

dnnl::primitive_attr WeightedAttributes(bool relu) {
  dnnl::primitive_attr attributes = UserScratch();
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  return attributes;
}

void WeightedKernel::RunForward(const ForwardArgs& args) {
  if (parts_.bias) {
    parts_.forward->Run({{DNNL_ARG_SRC, args.inputs[0]},
                         {DNNL_ARG_WEIGHTS, args.params[0]},
                         {DNNL_ARG_BIAS, args.params[1]},
                         {DNNL_ARG_DST, args.outputs[0]}},
                        args.scratch);
  } else {
    parts_.forward->Run({{DNNL_ARG_SRC, args.inputs[0]},
                         {DNNL_ARG_WEIGHTS, args.params[0]},
                         {DNNL_ARG_DST, args.outputs[0]}},
                        args.scratch);
  }
}

void WeightedKernel::RunBackward(const BackwardArgs& args) {
  const void* dy = args.output_grads[0];
  if (parts_.relu) {
    // Not in place: what it is given may be another operator's too.
    float* masked = At<float>(args.scratch, parts_.masked);
    ReluBackward(context(), static_cast<const float*>(args.outputs[0]),
                 static_cast<const float*>(dy), masked,
                 static_cast<int64_t>(plan().outputs[0].bytes / sizeof(float)));
    dy = masked;
  }
  if (parts_.relay_dy) {
    void* relaid = At<void>(args.scratch, parts_.relaid_dy);
    parts_.relay_dy->Run(dy, relaid, args.scratch);
    dy = relaid;
  }
  if (parts_.data && args.input_grads[0] != nullptr) {
    parts_.data->Run({{DNNL_ARG_DIFF_DST, dy},
                      {DNNL_ARG_WEIGHTS, args.params[0]},
                      {DNNL_ARG_DIFF_SRC, args.input_grads[0]}},
                     args.scratch);
  }
  if (parts_.bias) {
    parts_.weights->Run({{DNNL_ARG_SRC, args.inputs[0]},
                         {DNNL_ARG_DIFF_DST, dy},
                         {DNNL_ARG_DIFF_WEIGHTS, args.param_grads[0]},
                         {DNNL_ARG_DIFF_BIAS, args.param_grads[1]}},
                        args.scratch);
  } else {
    parts_.weights->Run({{DNNL_ARG_SRC, args.inputs[0]},
                         {DNNL_ARG_DIFF_DST, dy},
                         {DNNL_ARG_DIFF_WEIGHTS, args.param_grads[0]}},
                        args.scratch);
  }
}

}  // namespace soapstone::compute
