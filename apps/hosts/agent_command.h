// `soapstone agent`: what `soapstone train --hosts` starts on each host, over ssh. It is told by
// standard input (agent_message.h) what to check and which processes to start, and says on standard
// output what they write and how they end. When its standard input ends, a signal comes, or nothing
// is heard for a minute, it ends them: SIGTERM, 2 s later SIGKILL; its own death kills them at
// once.
#pragma once

namespace soapstone::apps {

// Returns the exit code: 0 once its standard input has ended.
int RunAgent();

}  // namespace soapstone::apps
