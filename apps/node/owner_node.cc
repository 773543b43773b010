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
  if (worked != kExitOk) server_->EndWith(worker_->ended());
  server.join();
  if (stop_code_ != 0) return stop_code_;
  return worked != kExitOk ? worked : served;
}

// The worker goes when its server has said so: of the two words the scheduler would hear either
// first, and the job would end with one code or the other.
void OwnerNode::RequestStop(int code) {
  stop_code_ = code;
  server_->RequestStop(code);
}

}  // namespace soapstone::apps
