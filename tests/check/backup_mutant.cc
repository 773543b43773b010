// Names of the mutants of the space of `backup`.
#include "tests/check/backup_space.h"

namespace soapstone::check {

std::string Name(BackupMutant mutant) {
  switch (mutant) {
    case BackupMutant::kNone:
      return "none";
    case BackupMutant::kEachShardChooses:
      return "each shard chooses for itself";
    case BackupMutant::kChoosesOnOwnClock:
      return "chosen before all shards hold it";
    case BackupMutant::kOneTooFew:
      return "rounds of one too few";
    case BackupMutant::kOneTooMany:
      return "rounds of one too many";
    case BackupMutant::kChosenLost:
      return "the choice does not arrive";
    case BackupMutant::kChosenUnchecked:
      return "an old choice counts for the open round";
    case BackupMutant::kHeldUnchecked:
      return "held twice counts as two shards";
    case BackupMutant::kLateApplied:
      return "late updates are applied";
    case BackupMutant::kVersionsMixed:
      return "versions of shards are mixed";
    case BackupMutant::kLostForgotten:
      return "updates of the lost are forgotten";
    case BackupMutant::kLeaveWakesNobody:
      return "leave does not close a round";
    case BackupMutant::kNoResume:
      return "no resume";
    case BackupMutant::kNoLinkLost:
      return "no word of the loss";
    case BackupMutant::kUpdateLost:
      return "an update is lost";
    case BackupMutant::kUpdateTwice:
      return "an update goes in twice";
  }
  return "?";
}

}  // namespace soapstone::check
