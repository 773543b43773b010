// Runs the device code on the host, for tests where there is no device: kernels' functors as loops,
// the threads of a block as fibers that take turns at each barrier; streams as queues. It shows
// wrong formulas, indices, sizes and orders, not races between threads or a library's own rules.
//
// What a stream is asked to do waits until the host waits for it, or for something behind it: so
// what does not wait for what it needs finds NaN, or what came later. Streams keep a time of their
// own, by costs that are made up; the host's advances only where it waits.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace soapstone::compute::emulated {

// A kernel: for `stream`, or for what is being recorded there.
void Submit(cudaStream_t stream, std::function<void()> work);

// From now on copies are made as soon as they may be, before kernels that were asked for earlier;
// else as late as they may be.
void MakeCopiesEarly(bool early);
// From now on nothing can be recorded, as with a driver that refuses.
void RefuseRecording(bool refuse);

// Calls body in each of `threads` fibers; inside it ThreadNow and BarrierNow.
void RunBlock(int threads, const std::function<void()>& body);
int ThreadNow();
void BarrierNow();

}  // namespace soapstone::compute::emulated
