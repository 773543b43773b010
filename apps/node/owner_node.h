// OwnerNode: a worker, and beside it in the same process the server that keeps the parameters of
// which its seat is the owner, or ranges of those that it holds (strategy/pieces.h). To everybody
// else they are two nodes: each registers, is reached and is counted by itself; between the two
// messages go through the memory of the process. They end together.
#pragma once

#include <atomic>

#include "apps/node/server_node.h"
#include "apps/node/worker_node.h"

namespace soapstone::apps {

// One thread calls Run; RequestStop from any. Both nodes outlive it.
class OwnerNode {
 public:
  OwnerNode(WorkerNode* worker, ServerNode* server) : worker_(worker), server_(server) {}

  // Works and serves until the job ends, the server on a thread of its own. Returns the exit code:
  // that of a stop that was asked for; else the worker's, or where that is good the server's.
  int Run();
  void RequestStop(int code);

 private:
  WorkerNode* worker_;
  ServerNode* server_;
  std::atomic<int> stop_code_ = 0;
};

}  // namespace soapstone::apps
