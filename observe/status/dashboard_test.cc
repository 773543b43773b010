#include "observe/status/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soapstone::status {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kFiles[] = {"/", "/board.css", "/draw.js", "/board.js", "/icon.svg"};

TEST(Dashboard, ItsFilesAreServedAndNothingElse) {
  size_t bytes = 0;
  for (const char* path : kFiles) {
    const auto file = DashboardFile(path);
    ASSERT_NE(file, nullptr) << path;
    EXPECT_EQ(file->code, 200);
    bytes += file->body.size();
  }
  EXPECT_LE(bytes, 60u << 10);
  EXPECT_THAT(DashboardFile("/")->type, StartsWith("text/html"));
  EXPECT_THAT(DashboardFile("/board.js")->type, StartsWith("text/javascript"));
  for (const char* path : {"", "/index.html", "/statusz.json", "/page/board.js", "/../board.js"}) {
    EXPECT_EQ(DashboardFile(path), nullptr) << path;
  }
}

// All that it asks for are these files: no policy of ours needs to let anything else in.
TEST(Dashboard, TheServedPageNamesItsFilesAlone) {
  const std::string page = DashboardFile("/")->body;
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr(" style=")));
  EXPECT_THAT(page, Not(HasSubstr(" onload=")));
}

TEST(Dashboard, ASavedOneHasAllInIt) {
  const std::string saved = SavedDashboard("{\"job\": \"a job\"}\n");
  EXPECT_THAT(saved, HasSubstr("default-src 'none'"));
  EXPECT_THAT(saved, HasSubstr("{\"job\": \"a job\"}"));
  EXPECT_THAT(saved, HasSubstr(DashboardFile("/board.css")->body));
  EXPECT_THAT(saved, HasSubstr(DashboardFile("/draw.js")->body));
  EXPECT_THAT(saved, HasSubstr(DashboardFile("/board.js")->body));
  for (const char* asked : {" src=", "<link"}) EXPECT_THAT(saved, Not(HasSubstr(asked)));
}

// What nodes say of themselves is data in a saved page too, and cannot end the element it is in, or
// stand for a part of the page.
TEST(Dashboard, OthersWordsStayWithinTheSavedStatus) {
  const std::string odd = "{\"job\": \"</script><img src=x onerror=alert(1)></body><!--\"}";
  const std::string saved = SavedDashboard(odd);
  EXPECT_THAT(saved, Not(HasSubstr("<img")));
  EXPECT_THAT(saved, Not(HasSubstr("<!--")));
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = saved.find(part); at != saved.npos; at = saved.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("</script>"), 2u);
  EXPECT_EQ(count("</body>"), 1u);
}

}  // namespace
}  // namespace soapstone::status
