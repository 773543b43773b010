// What the kernel says of memory: how much this process has resident, and how much it could have.
// Called by `soapstone profile`. Linux.
#pragma once

#include <cstdint>

namespace soapstone::apps {

struct ResidentMemory {
  uint64_t now_bytes = 0;
  // Of it: code as far as it was used, that of files and what libraries generate as they run, with
  // the read-only data of those files.
  uint64_t code_bytes = 0;
  uint64_t peak_bytes = 0;  // the greatest now_bytes since the process began, or ResetPeakMemory
};

// Zeros where /proc does not tell.
ResidentMemory ReadResidentMemory();

// The peak begins anew at what is resident now. False: the kernel does not do it.
bool ResetPeakMemory();

// From now on blocks of 1 MB and more go back to the system when they are freed, and of smaller
// ones up to 4 MB at the heap's end are kept. Left alone, glibc keeps large blocks once a larger
// one was freed: oneDNN packs the matrices of large products into blocks of its own, by which a
// step then takes tens of megabytes more than it needs. And of small products' it gives all beyond
// 128 kB back at each of them, to ask for it again at the next: one sample of a small transformer
// takes 4 times as long.
void ReturnLargeBlocks();

}  // namespace soapstone::apps
