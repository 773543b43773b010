// ConsoleReports: what a scheduler that was started by hand says, as text.
#pragma once

#include "apps/cli/console.h"
#include "apps/report/report.h"

namespace soapstone::apps {

// News, progress and the closing table on a console, as `soapstone train` has them, but for what
// other nodes report. One thread. `console` outlives it.
class ConsoleReports : public ReportSink {
 public:
  // `utf8`: the console has Unicode's blocks.
  ConsoleReports(Console* console, bool utf8) : console_(*console), utf8_(utf8) {}
  void Take(const Report& report) override;

 private:
  Console& console_;
  const bool utf8_;
};

}  // namespace soapstone::apps
