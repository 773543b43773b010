// MachineClocks: the steady clocks of a job's machines brought to one, by what their processes sent
// each other. A value from events; what it cannot tell it says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "observe/timeline/read_events.h"

namespace soapstone::timeline {

class MachineClocks {
 public:
  struct Machine {
    std::string host;
    Nanos offset = 0;    // its clock minus that of the first
    Nanos error = 0;     // of that, at most
    bool known = false;  // else nothing went both ways, and `offset` is 0
  };

  // By pushes (worker to shard) and answers (shard to worker). The first machine is that of the
  // first thread. A message that was sent or came twice says nothing.
  explicit MachineClocks(const std::vector<ThreadEvents>& threads);

  // `at`, on the clock of `machine`, on the first one's.
  Nanos OnFirst(uint64_t machine, Nanos at) const;
  const std::map<uint64_t, Machine>& machines() const { return machines_; }

 private:
  std::map<uint64_t, Machine> machines_;
};

}  // namespace soapstone::timeline
