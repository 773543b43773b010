// EventReports: a job's curves in a TensorBoard event file, beside what its reports go to.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/loop/writer_thread.h"
#include "apps/report/report.h"
#include "base/ids.h"

namespace soapstone::apps {

// Hands each report on first. Of progress it writes what is new of the clock: loss, rate, lags,
// learning rate; of the result, held-out loss and accuracy. Invariant: nothing waits for the disk;
// what cannot be written is said once, and ends nothing.
class EventReports : public ReportSink {
 public:
  // `folder` is made. `rate`: the learning rate at a clock. `clocks`: of a worker in the run.
  // `next` outlives it. Error: InvalidArgument, where no file can be made there.
  static absl::StatusOr<std::unique_ptr<EventReports>> Open(const std::string& folder,
                                                            std::function<double(Clock)> rate,
                                                            Clock clocks, ReportSink* next);
  ~EventReports() override;

  void Take(const Report& report) override;

 private:
  EventReports(int fd, std::string path, std::function<double(Clock)> rate, Clock clocks,
               ReportSink* next);

  const int fd_;
  const std::string path_;
  const std::function<double(Clock)> rate_;
  const Clock clocks_;
  ReportSink& next_;
  WriterThread writer_;
  Clock last_ = -1;
};

}  // namespace soapstone::apps
