// Runs the device code on the host, for tests where there is no device: kernels' functors as loops,
// the threads of a block as fibers that take turns at each barrier; streams run at once, or record.
// It shows wrong formulas, indices, sizes and orders, not races between threads or a library's own
// rules.
#pragma once

#include <functional>

namespace soapstone::compute::emulated {

// What a stream is asked to do: done now, or kept while a recording is on.
void Submit(std::function<void()> work);

// Calls body in each of `threads` fibers; inside it ThreadNow and BarrierNow.
void RunBlock(int threads, const std::function<void()>& body);
int ThreadNow();
void BarrierNow();

}  // namespace soapstone::compute::emulated
