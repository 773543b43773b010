// `soapstone train --hosts=FILE`: the scheduler runs beside the launcher, servers and workers on
// the hosts of the file, reached by ssh.
#pragma once

#include "apps/cli/node_flags.h"

namespace soapstone::apps {

// As Train (launcher.h); kExitPeerLost where a host cannot be reached.
int TrainOnHosts(const NodeFlags& flags);

}  // namespace soapstone::apps
