#include "apps/top/top_command.h"

#include <curl/curl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "apps/cli/console.h"
#include "apps/cli/job_source.h"
#include "apps/report/job_status.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "observe/status/dashboard.h"

namespace soapstone::apps {
namespace {

constexpr char kTopProgram[] = "soapstone top";
constexpr size_t kPageBytesMax = size_t{64} << 20;
constexpr long kConnectSeconds = 3;
constexpr long kSeconds = 10;  // of a page, at most

size_t TakePart(char* bytes, size_t size, size_t count, void* page) {
  auto* const text = static_cast<std::string*>(page);
  if (text->size() + size * count > kPageBytesMax) return 0;  // libcurl ends it then
  text->append(bytes, size * count);
  return size * count;
}

// Error: Unavailable, with libcurl's words.
absl::StatusOr<std::string> Get(const std::string& url) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return absl::InternalError("libcurl does not start");
  std::string page;
  char why[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, kSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, TakePart);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &page);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code == CURLE_OK) return page;
  return absl::UnavailableError(
      absl::StrCat(url, ": ", *why != '\0' ? why : curl_easy_strerror(code)));
}

// Of pages that nobody serves any more: what is left of a job whose log folder was named.
absl::Status WhereItIsNow(const absl::Status& status, const std::string& where) {
  if (!absl::IsUnavailable(status) || absl::StartsWith(where, "http://")) return status;
  return absl::UnavailableError(absl::StrCat("the job of ", where,
                                             " has ended, or cannot be reached: what is left of it "
                                             "is in that folder (",
                                             status.message(), ")"));
}

// The address of a node's pages: `where`, or what a log folder's file says.
absl::StatusOr<std::string> AddressOf(const std::string& where) {
  if (absl::StartsWith(where, "http://")) return std::string(absl::StripSuffix(where, "/"));
  std::ifstream file(where + "/http");
  std::string address;
  if (std::getline(file, address) && absl::StartsWith(address, "http://")) return address;
  // As the launcher leaves it: the port may be another job's now.
  if (address == "ended") return absl::UnavailableError("its pages were there while it ran");
  return absl::InvalidArgumentError(absl::StrCat(
      where, " is no address (http://HOST:PORT), and no log folder with a file `http`"));
}

size_t Columns() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 200;
}

absl::StatusOr<JobStatus> Look(const std::string& address) {
  SOAP_ASSIGN_OR_RETURN(const std::string page, Get(address + "/statusz.json"));
  return StatusFromJson(page);
}

absl::Status Save(const std::string& address, const std::string& path) {
  SOAP_ASSIGN_OR_RETURN(const std::string page, Get(address + "/statusz.json"));
  SOAP_ASSIGN_OR_RETURN(const JobStatus seen, StatusFromJson(page));
  if (seen.role != "scheduler") {
    return absl::InvalidArgumentError(
        absl::StrCat("--save: ", address, " are the pages of a ", PlainText(seen.role),
                     ", which knows itself alone; the dashboard is the scheduler's"));
  }
  absl::Status written = WriteWholeFile(path, status::SavedDashboard(page));
  if (written.ok()) return written;
  return absl::InvalidArgumentError(absl::StrCat("--save: ", written.message()));
}

}  // namespace

int Top(const TopFlags& flags) {
  const absl::StatusOr<std::string> address = AddressOf(flags.where);
  if (!address.ok()) {
    return SayConfigError(kTopProgram, WhereItIsNow(address.status(), flags.where));
  }
  if (!flags.save.empty()) {
    const absl::Status saved = Save(*address, flags.save);
    return saved.ok() ? kExitOk : SayConfigError(kTopProgram, WhereItIsNow(saved, flags.where));
  }
  const bool utf8 = SpeaksUtf8([](const char* name) { return std::getenv(name); });
  const bool redraws = !flags.once && isatty(STDOUT_FILENO) != 0;
  for (bool seen = false;; seen = true) {
    const absl::StatusOr<JobStatus> status = Look(*address);
    if (!status.ok() && seen && absl::IsUnavailable(status.status())) {
      std::cout << "the job has ended\n";
      return kExitOk;
    }
    if (!status.ok()) {
      return SayConfigError(kTopProgram, WhereItIsNow(status.status(), flags.where));
    }
    if (redraws) std::cout << "\x1b[H\x1b[2J";  // home, clear
    std::cout << StatusScreen(*status, Columns(), utf8) << std::flush;
    if (flags.once || !std::cout) return kExitOk;
    if (status->ended.has_value()) {
      std::cout << "the job has ended with " << status->ended->code << "\n";
      return kExitOk;
    }
    absl::SleepFor(absl::Seconds(flags.every_s));
  }
}

}  // namespace soapstone::apps
