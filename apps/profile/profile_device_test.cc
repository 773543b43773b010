// The profile of a device: the emulated one, whose times are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "apps/profile/profile_report.h"
#include "apps/profile/roofline.h"
#include "apps/profile/step_profile.h"
#include "compute/cuda/cuda_backend.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

using Json = nlohmann::json;

// [begin, end) of a track's slices, in microseconds.
struct Slice {
  std::string name;
  double begin = 0, end = 0;
};
using Tracks = std::map<std::pair<int, int>, std::vector<Slice>>;  // by process and track

class DeviceProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    report_.graph = *models::BuildModel("mlp:hidden=800", models::ModelInput{});
    report_.on_device = true;
    auto profiler =
        *StepProfiler::Create(report_.graph, {.backend = *compute::MakeCudaBackend({})});
    report_.kept.steps = *profiler->Measure(1, 0, nullptr);
  }

  Tracks Trace() const {
    const Json trace = Json::parse(ProfileTrace(report_));
    Tracks tracks;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const double begin = event["ts"].get<double>();
      tracks[{event["pid"].get<int>(), event["tid"].get<int>()}].push_back(
          {event["name"].get<std::string>(), begin, begin + event["dur"].get<double>()});
    }
    return tracks;
  }

  ProfileReport report_;
};

TEST_F(DeviceProfile, AQueueDoesOneThingAtATime) {
  const Tracks tracks = Trace();
  EXPECT_EQ(tracks.size(), 6u);  // kernels and copies there and back, twice
  for (const auto& [track, slices] : tracks) {
    double end = 0;
    for (const Slice& slice : slices) {
      EXPECT_GE(slice.begin, end - 1e-3) << slice.name;
      EXPECT_GE(slice.end, slice.begin) << slice.name;
      end = slice.end;
    }
  }
}

TEST_F(DeviceProfile, OperatorsOneByOneHaveTheirTimes) {
  std::map<std::string, Slice> kernels;
  Tracks tracks = Trace();
  for (const Slice& slice : tracks[{1, 0}]) kernels[slice.name] = slice;
  const StepProfile& steps = report_.kept.steps;
  for (size_t k = 0; k < report_.graph.ops().size(); ++k) {
    const models::Op& op = report_.graph.ops()[k];
    for (const bool forward : {true, false}) {
      ASSERT_EQ(kernels.count(OperatorSpan(op, forward)), 1u) << op.name;
      const TimeSlice& half = forward ? steps.typical.forward[k] : steps.typical.backward[k];
      EXPECT_NEAR(static_cast<double>(half.took()) / 1e3,
                  kernels[OperatorSpan(op, forward)].end - kernels[OperatorSpan(op, forward)].begin,
                  1e-3);
    }
    EXPECT_GE(steps.backward[k], op.params.empty() ? 0 : 1) << op.name;
  }
}

TEST_F(DeviceProfile, EveryGradientIsCopiedAndSomeBesideTheBackwardPass) {
  Tracks tracks = Trace();
  const std::vector<Slice>& copies = tracks[{0, 2}];
  EXPECT_EQ(copies.size(), report_.graph.params().size() + 1);  // and the loss
  const Slice& last_kernels = tracks[{0, 0}].back();
  EXPECT_THAT(last_kernels.name, ::testing::HasSubstr("backward"));
  const auto beside = [&](const Slice& copy) {
    return copy.name.starts_with("grad ") && copy.begin < last_kernels.end;
  };
  EXPECT_TRUE(std::any_of(copies.begin(), copies.end(), beside));
}

}  // namespace
}  // namespace soapstone::apps
