// Faults of what keeps parameters, for tests of the ledgers that must notice them.
#pragma once

#include <cstdint>

namespace soapstone::server {

enum class StoreFault : uint8_t {
  kNone,
  kDropsUpdates,     // no update is applied
  kDoublesUpdates,   // each is applied twice
  kReordersUpdates,  // an update is kept back, and applied after the next
  kAnswersOlder,     // reads get the values of before the last update, stamped as what they are
  kOlderContent,     // and stamped as the newest
  kFinalOlder,       // final reads alone: as kAnswersOlder
  kFinalContent,     // and as kOlderContent
  kSavesOlder,       // what the model's file gets alone: as kOlderContent
  kDropsParcels,     // of peers: what another sent is not taken in
  kLosesParcels,     // and they say that it was
};

}  // namespace soapstone::server
