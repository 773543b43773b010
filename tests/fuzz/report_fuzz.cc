// What processes tell their launcher, and what `soapstone top` reads of a page
// (apps/report/report.h, apps/report/job_status.h). Input: a line, or a page.
#include "apps/report/job_status.h"
#include "apps/report/report.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace apps = soapstone::apps;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto report = apps::FromJson(text); report.ok()) {
    const std::string line = apps::ToJson(*report);
    CHECK_EQ(line.find('\n'), std::string::npos);
    CHECK(apps::FromJson(line).ok());
  }
  if (const auto status = apps::StatusFromJson(text); status.ok()) {
    CHECK(apps::StatusFromJson(apps::StatusJson(*status)).ok());
    const std::string screen = apps::StatusScreen(*status, 80, /*utf8=*/true);
    for (const char c : screen)
      CHECK(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
  }
  return 0;
}
