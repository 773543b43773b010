#include "transport/rejections.h"

#include "base/steady_clock.h"
#include "glog/logging.h"

namespace soapstone::transport {

void Rejections::Add(const absl::Status& reason, SteadyTime now) {
  ++count_;
  if (now < next_log_) return;
  LOG(WARNING) << "messages rejected: " << count_ - logged_count_ << "; last: " << reason.message();
  logged_count_ = count_;
  next_log_ = now + absl::Seconds(1);
}

}  // namespace soapstone::transport
