#include "experiment/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "experiment/fake_experiment.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() {
    lines_.push_back(HeaderLine(experiment_.digest));
    for (const RunPlan& plan : TuningPlans(experiment_, {0, 0, 0, 4})) Add(plan);
    for (const RunPlan& plan : TuningPlans(experiment_, {0, 1, 0, 4})) Add(plan);
  }
  void Add(RunPlan plan) {
    plans_.push_back(std::move(plan));
    lines_.push_back(RunLine(Sha256Of(lines_.back()),
                             RecordJson(experiment_, plans_.back(), FakeOutcome(plans_.back()))));
  }
  std::string Text() const {
    std::string text;
    for (const std::string& line : lines_) text += line;
    return text;
  }

  const Experiment experiment_ = *FakeExperiment();
  std::vector<RunPlan> plans_;
  std::vector<std::string> lines_;
};

TEST_F(RegistryTest, IsReadBack) {
  const auto registry = ParseRegistry(Text());
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_EQ(registry->experiment, experiment_.digest);
  EXPECT_FALSE(registry->torn);
  EXPECT_EQ(registry->good_bytes, Text().size());
  EXPECT_EQ(registry->last_sha256, Sha256Of(lines_.back()));
  ASSERT_EQ(registry->runs.size(), plans_.size());
  for (size_t i = 0; i < plans_.size(); ++i) {
    EXPECT_EQ(registry->runs[i].id, plans_[i].id);
    EXPECT_EQ(registry->runs[i].outcome, FakeOutcome(plans_[i]));
  }
}

TEST_F(RegistryTest, NumbersThatJsonHasNotAreReadBack) {
  RunOutcome outcome = FakeOutcome(plans_[0]);
  outcome.train_loss = std::numeric_limits<double>::quiet_NaN();
  outcome.diverged = true;
  const auto record = ParseRecord(RecordJson(experiment_, plans_[0], outcome));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(std::isnan(record->outcome.train_loss));
  EXPECT_TRUE(record->outcome.diverged);
}

TEST_F(RegistryTest, ACutOffLastLineIsDroppedWhereverItWasCut) {
  const std::string whole = Text();
  const size_t kept = whole.size() - lines_.back().size();
  for (size_t size = kept + 1; size < whole.size(); ++size) {
    const auto registry = ParseRegistry(whole.substr(0, size));
    ASSERT_TRUE(registry.ok()) << size << ": " << registry.status();
    EXPECT_TRUE(registry->torn);
    EXPECT_EQ(registry->good_bytes, kept);
    EXPECT_EQ(registry->runs.size(), plans_.size() - 1);
  }
}

TEST_F(RegistryTest, AGarbledLastLineIsDropped) {
  lines_.back().replace(20, 4, "????");
  const auto registry = ParseRegistry(Text());
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_TRUE(registry->torn);
}

TEST_F(RegistryTest, AnAlteredRunIsFound) {
  const size_t at = lines_[2].find("\"test_accuracy\":0.95");
  ASSERT_NE(at, std::string::npos);
  lines_[2].replace(at, 20, "\"test_accuracy\":0.99");
  EXPECT_THAT(std::string(ParseRegistry(Text()).status().message()), HasSubstr("line 3"));
}

TEST_F(RegistryTest, ARunLeftOutIsFound) {
  lines_.erase(lines_.begin() + 2);
  EXPECT_THAT(std::string(ParseRegistry(Text()).status().message()), HasSubstr("line 3"));
}

TEST_F(RegistryTest, RunsInAnotherOrderAreFound) {
  std::swap(lines_[1], lines_[2]);
  EXPECT_FALSE(ParseRegistry(Text()).ok());
}

TEST_F(RegistryTest, ARunListedTwiceIsFound) {
  Add(plans_[0]);
  Add(plans_[0]);
  EXPECT_THAT(std::string(ParseRegistry(Text()).status().message()), HasSubstr("twice"));
}

TEST_F(RegistryTest, AHeaderOfAnotherExperimentDoesNotFitTheRuns) {
  lines_[0] = HeaderLine(std::string(64, '0'));
  EXPECT_FALSE(ParseRegistry(Text()).ok());
}

TEST_F(RegistryTest, NothingIsARegistryWithoutRuns) {
  const auto registry = ParseRegistry("");
  ASSERT_TRUE(registry.ok());
  EXPECT_TRUE(registry->experiment.empty());
  EXPECT_FALSE(registry->torn);
}

}  // namespace
}  // namespace soapstone::experiment
