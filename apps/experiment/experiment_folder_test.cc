#include "apps/experiment/experiment_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "experiment/fake_experiment.h"
#include "experiment/run_json.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class ExperimentFolderTest : public ::testing::Test {
 protected:
  ExperimentFolderTest() { fs::remove_all(path_); }
  ~ExperimentFolderTest() override { fs::remove_all(path_); }

  absl::StatusOr<std::unique_ptr<ExperimentFolder>> Open() {
    return ExperimentFolder::Open(path_, experiment_, "the file");
  }
  // Opens it, appends all tuning runs of a cell, and closes it.
  void Fill() {
    auto folder = Open();
    ASSERT_TRUE(folder.ok()) << folder.status();
    for (const auto& plan : experiment::TuningPlans(experiment_, {0, 0, 0, 4})) {
      ASSERT_TRUE(
          (*folder)
              ->Append(experiment::RecordJson(experiment_, plan, experiment::FakeOutcome(plan)))
              .ok());
    }
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(path_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  // What Open says; it must leave every file as it was.
  std::string Refusal() {
    const std::string before = Read("runs.jsonl");
    const absl::Status checked = ExperimentFolder::Check(path_, experiment_);
    const auto folder = Open();
    EXPECT_FALSE(folder.ok());
    EXPECT_EQ(Read("runs.jsonl"), before);
    std::string message(folder.status().message());
    const bool by_lock = absl::StrContains(message, "another process");  // which Check leaves alone
    EXPECT_EQ(std::string(checked.message()), by_lock ? "" : message);
    EXPECT_THAT(message, HasSubstr("--out="));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    return message;
  }

  // A folder of this test's own: tests run at the same time.
  const std::string path_ = ::testing::TempDir() + "experiment_folder_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
  experiment::Experiment experiment_ = *experiment::FakeExperiment();
};

TEST_F(ExperimentFolderTest, GoesOnWhereTheLastProcessStopped) {
  Fill();
  const auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->outcomes().size(), 9u);
  EXPECT_EQ((*folder)->facts().torn_lines, 0u);
  EXPECT_EQ(Read("spec.textproto"), "the file");
}

TEST_F(ExperimentFolderTest, DropsALineThatAKillCutOffAndGoesOn) {
  Fill();
  const std::string whole = Read("runs.jsonl");
  fs::resize_file(path_ + "/runs.jsonl", whole.size() - 7);
  {
    const auto folder = Open();
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ((*folder)->outcomes().size(), 8u);
    EXPECT_EQ((*folder)->facts().torn_lines, 1u);
    const auto plan = experiment::TuningPlans(experiment_, {0, 0, 0, 4})[8];
    ASSERT_TRUE(
        (*folder)
            ->Append(experiment::RecordJson(experiment_, plan, experiment::FakeOutcome(plan)))
            .ok());
  }
  EXPECT_EQ(Read("runs.jsonl"), whole);  // as if it had not been killed
}

TEST_F(ExperimentFolderTest, AKillWithinTheFirstLineIsHarmless) {
  Fill();
  fs::resize_file(path_ + "/runs.jsonl", 20);
  const auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_TRUE((*folder)->outcomes().empty());
}

TEST_F(ExperimentFolderTest, RefusesTheFolderOfAnotherExperiment) {
  Fill();
  experiment_ = *experiment::FakeExperiment(experiment::FakeSpecWith("epochs: 2", "epochs: 3"));
  EXPECT_THAT(Refusal(), HasSubstr("another experiment"));
  EXPECT_EQ(Read("spec.textproto"), "the file");
}

TEST_F(ExperimentFolderTest, ChecksWithoutAChange) {
  EXPECT_TRUE(ExperimentFolder::Check(path_ + "/new/er", experiment_).ok());
  EXPECT_FALSE(fs::exists(path_));
  std::ofstream(path_) << "a file";
  EXPECT_THAT(std::string(ExperimentFolder::Check(path_, experiment_).message()),
              HasSubstr("is not a folder"));
  EXPECT_THAT(std::string(ExperimentFolder::Check(path_ + "/new", experiment_).message()),
              HasSubstr("cannot write to " + path_ + ": Not a directory"));
}

TEST_F(ExperimentFolderTest, RefusesAFolderThatIsNoExperiments) {
  fs::create_directories(path_);
  Write("precious.txt", "do not touch");
  EXPECT_THAT(Refusal(), HasSubstr("not empty"));
  EXPECT_FALSE(fs::exists(path_ + "/runs.jsonl"));
}

TEST_F(ExperimentFolderTest, RefusesARegistryThatIsNone) {
  fs::create_directories(path_);
  Write("runs.jsonl", "{\"step\":1}");  // a line of another program's
  EXPECT_THAT(Refusal(), HasSubstr("another experiment"));
}

TEST_F(ExperimentFolderTest, RefusesADamagedRegistry) {
  Fill();
  std::string text = Read("runs.jsonl");
  text.replace(text.find("\"previous\""), 5, "\"next");
  Write("runs.jsonl", text);
  EXPECT_THAT(Refusal(), HasSubstr("line 2"));
}

TEST_F(ExperimentFolderTest, RefusesASecondProcess) {
  const auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(Refusal(), HasSubstr("another process"));
}

TEST_F(ExperimentFolderTest, RefusesAFile) {
  std::ofstream(path_) << "a file";
  EXPECT_THAT(Refusal(), HasSubstr("not a folder"));
}

TEST_F(ExperimentFolderTest, WritesTheReport) {
  const auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.status();
  const experiment::Outcomes outcomes = experiment::FakeRuns(experiment_);
  const auto results = experiment::Summarize(experiment_, outcomes, {});
  ASSERT_TRUE((*folder)->WriteReport(results).ok());
  EXPECT_THAT(Read("report.html"), HasSubstr("</html>"));
  EXPECT_FALSE(fs::exists(path_ + "/report.html.new"));
}

}  // namespace
}  // namespace soapstone::apps
