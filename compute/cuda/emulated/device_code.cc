// The device's kernels, compiled for the host (see emulator.h).
#define SOAPSTONE_CUDA_EMULATED
#include "compute/cuda/elementwise.cu"
#include "compute/cuda/movement.cu"
#include "compute/cuda/optimizer.cu"
#include "compute/cuda/reductions.cu"
#include "compute/cuda/sequence.cu"
