#include "apps/node/owner_node.h"

#include <thread>

#include "base/exit_codes.h"

namespace soapstone::apps {

int OwnerNode::Run() {
  int served = kExitOk;
  std::jthread server([&] {
    served = server_->Run();
    if (served != kExitOk) worker_->RequestStop(served);
  });
  const int worked = worker_->Run();
  // The job cannot go on without the worker. Where it has ended well the server may have to save
  // the model yet.
  if (worked != kExitOk) server_->RequestStop(worked);
  server.join();
  return worked != kExitOk ? worked : served;
}

void OwnerNode::RequestStop(int code) {
  worker_->RequestStop(code);
  server_->RequestStop(code);
}

}  // namespace soapstone::apps
