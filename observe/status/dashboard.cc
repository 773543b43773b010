#include "observe/status/dashboard.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "observe/status/page_files.h"

namespace soapstone::status {
namespace {

std::unique_ptr<HttpPage> File(const char* type, absl::string_view body) {
  return std::make_unique<HttpPage>(
      HttpPage{.type = absl::StrCat(type, "; charset=utf-8"), .body = std::string(body)});
}

// What the page may do when it is no longer a server's: nothing but what is in it.
constexpr char kSavedPolicy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">";

}  // namespace

std::unique_ptr<HttpPage> DashboardFile(const std::string& path) {
  if (path == "/") return File("text/html", PageHtml());
  if (path == "/board.css") return File("text/css", PageCss());
  if (path == "/draw.js") return File("text/javascript", PageDrawJs());
  if (path == "/board.js") return File("text/javascript", PageBoardJs());
  if (path == "/icon.svg") return File("image/svg+xml", PageIcon());
  return nullptr;
}

std::string SavedDashboard(const std::string& status) {
  // In a <script>, "<" could end the element; in JSON it may be written as \u003c.
  const std::string data = absl::StrReplaceAll(status, {{"<", "\\u003c"}});
  // One pass: what is put in is not looked at again.
  return absl::StrReplaceAll(
      PageHtml(), {{"<link rel=\"icon\" href=\"icon.svg\">", kSavedPolicy},
                   {"<link rel=\"stylesheet\" href=\"board.css\">",
                    absl::StrCat("<style>\n", PageCss(), "</style>")},
                   {"<script src=\"draw.js\" defer></script>", ""},
                   {"<script src=\"board.js\" defer></script>", ""},
                   {"</body>", absl::StrCat("<script id=\"saved\" type=\"application/json\">", data,
                                            "</script>\n<script>\n", PageDrawJs(), PageBoardJs(),
                                            "</script>\n</body>")}});
}

}  // namespace soapstone::status
