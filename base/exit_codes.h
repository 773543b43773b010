// Exit codes of every Soapstone process; docs/operations.md lists them for users.
#pragma once

namespace soapstone {

inline constexpr int kExitOk = 0;
inline constexpr int kExitReplayDiffers =
    65;  // EX_DATAERR: a replay came to another result than its run
inline constexpr int kExitInternal = 70;  // EX_SOFTWARE: a bug of ours
inline constexpr int kExitStopped =
    75;  // EX_TEMPFAIL: stopped at a clock with a checkpoint, to go on from it at once
inline constexpr int kExitBroken = 76;  // a strict job's policy did not keep its guarantee
inline constexpr int kExitConfig =
    78;  // EX_CONFIG: the job, a flag, a data file, a port; do not retry
inline constexpr int kExitNotFinite =
    79;  // training diverged: the same job would again; do not retry
inline constexpr int kExitInterrupted = 130;  // SIGINT, after a clean stop
inline constexpr int kExitPeerLost = 138;     // a peer was lost; the same job may be tried again
inline constexpr int kExitTerminated = 143;   // SIGTERM, after a clean stop

}  // namespace soapstone
