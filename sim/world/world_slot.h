// WorldSlot: a process of a world (sim/world.h) that stands, or stood, for a worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "server/peer/peer.h"
#include "sim/world/scripted_device.h"
#include "wire/message.h"
#include "worker/engine.h"

namespace soapstone::sim {

// A value; equal ones have equal futures. World changes it.
struct WorldSlot {
  static constexpr uint32_t kUnranked = 1000;  // more than there are ranks

  bool running() const { return engine.has_value() && !gone; }
  bool waits() const { return running() && engine->waits(); }
  std::string Name(uint32_t process) const;  // "worker-3 (process 5)"
  void AddTo(Fingerprint* f) const;

  std::optional<WorkerId> rank;
  uint64_t ranked = 0;  // order in which ranks were given: the latest holder gets the messages
  std::optional<worker::Engine> engine;  // from Welcome on
  std::optional<server::Peer> peer;      // likewise, decentralised
  uint64_t session = 0;
  Epoch epoch = 0;                 // of the latest roster that came
  SharedList<wire::Chain> chains;  // likewise
  bool started = false;
  bool leaving = false;
  bool crashed = false;   // by fault
  bool noticed = false;   // and the coordinator knows
  bool expelled = false;  // counted out alive: what it does counts no more
  bool silent = false;    // for its silence, and has not been heard since
  bool gone = false;      // shut down, refused, or crashed: acts no more
  wire::Progress told;    // in its last report
  ScriptedDevice device;
};

}  // namespace soapstone::sim
