#include "cluster/iteration_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cluster/straggler.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> FirstRows(const std::string& path, size_t count) {
  std::ifstream file(path);
  std::vector<std::string> rows(count);
  for (std::string& row : rows) std::getline(file, row);
  return rows;
}

TEST(IterationTrace, WhatIsRecordedIsReplayed) {
  const std::string path = ::testing::TempDir() + "iteration_trace_test.csv";
  for (uint32_t w = 0; w < 2; ++w) {
    const auto trace = IterationTrace::Open(path, WorkerId{w});
    ASSERT_TRUE(trace.ok()) << trace.status();
    wire::Progress progress;
    for (Clock clock = 1; clock <= 3; ++clock) {
      progress.compute_ns += 40'000 * clock;
      (*trace)->Take(Nanos{clock} * 1'000'000, progress);  // in the middle of the iteration
      progress.injected_ns += w * 100'000;
      progress.clock = clock;
      (*trace)->Take(Nanos{clock} * 1'000'000, progress);
      (*trace)->Take(Nanos{clock} * 1'000'000, progress);
    }
  }
  ASSERT_TRUE(JoinTraceParts(path, 2).ok());
  EXPECT_THAT(FirstRows(path, 2),
              testing::ElementsAre("worker,clock,compute_us,injected_us,blocked_us,end_us",
                                   "0,0,40.0,0.0,0.0,1000.0"));
  EXPECT_FALSE(std::filesystem::exists(TracePart(path, WorkerId{0})));
  const auto model = sim::StragglerModel::Parse("trace:file=" + path + ",base_us=40", 1);
  ASSERT_TRUE(model.ok()) << model.status();
  for (Clock clock = 0; clock < 3; ++clock) {
    EXPECT_NEAR(model->Factor(WorkerId{0}, clock), static_cast<double>(clock + 1), 1e-9);
    EXPECT_NEAR(model->Factor(WorkerId{1}, clock), static_cast<double>(clock + 1) + 2.5, 1e-9);
  }
  std::remove(path.c_str());
}

TEST(IterationTrace, AFolderThatIsNotThereIsNamed) {
  const auto trace = IterationTrace::Open("/nowhere/trace.csv", WorkerId{1});
  EXPECT_THAT(std::string(trace.status().message()),
              HasSubstr("output.trace_path: cannot write /nowhere/trace.csv.worker-1: No such"));
}

}  // namespace
}  // namespace soapstone::apps
