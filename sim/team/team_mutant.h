// TeamMutant: what a world of teams (sim/team/team_world.h) does wrong on purpose, so that tests
// see its checks find it.
#pragma once

#include <cstdint>

#include "cluster/training_job.h"
#include "server/shard/shard_options.h"
#include "wire/message.h"
#include "worker/engine_options.h"

namespace soapstone::sim {

enum class TeamMutant : uint8_t {
  kNone,
  // Of seats.
  kOrdersWait,            // seat 0 takes its first block before it gives its first
  kNoGrants,              // nobody waits for word of a clock
  kEarlyLoad,             // the device begins a clock with the parameters that it has
  kNoStash,               // a seat that runs ahead keeps the parameters of one clock
  kNoLocalStep,           // local steps are not made
  kTooFar,                // it runs ahead by one clock more than the bound allows
  kLeadForgottenBySeats,  // they hold answers to all of their own updates, though they are ahead
  kTakenOverLate,         // what is taken over begins a clock later
  // Of what is under way.
  kBlockTwice,   // of two copies of a block the second is of the next clock
  kFormerBlock,  // a block of a former team passes for one of the present
  // Of shards.
  kFirstPush,      // server::TeamFault
  kFirstPull,      // likewise
  kAsTheyCome,     // likewise
  kEachFresh,      // likewise
  kUpdatesLost,    // of their stores
  kLeadForgotten,  // they hold reads to all of the reader's own updates, though it is ahead
  kFormerPush,     // what a former team sends passes for the present one's
};

// What it makes of a seat's programs, of a shard, and of a message that arrives.
worker::EngineOptions EngineOptionsWith(TeamMutant mutant, const cluster::TrainingJob& job,
                                        WorkerId worker);
server::ShardOptions ShardOptionsWith(TeamMutant mutant, const cluster::TrainingJob& job,
                                      ShardId shard);
void Mutate(TeamMutant mutant, wire::Message* message);

}  // namespace soapstone::sim
