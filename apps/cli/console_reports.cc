#include "apps/cli/console_reports.h"

#include "absl/strings/str_cat.h"
#include "apps/loop/node_loop.h"
#include "base/plain_text.h"

namespace soapstone::apps {

void ConsoleReports::Take(const Report& report) {
  if (const auto* news = std::get_if<News>(&report)) {
    console_.Line(PlainText(news->text));  // one line
  } else if (const auto* progress = std::get_if<ProgressReport>(&report)) {
    console_.Progress(NodeLoop::Now(), ToLine(*progress));
  } else if (const auto* result = std::get_if<ResultReport>(&report)) {
    console_.EndProgress();
    console_.Line(result->code == 0
                      ? ToTable(*result, {}, {.utf8 = utf8_})
                      : absl::StrCat("ended with exit code ", result->code, ": ", result->reason));
  }
}

}  // namespace soapstone::apps
