// bsp by real processes over tcp, and by the command in virtual time, has the bits of a plain loop
// with no cluster at all.
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/golden/direct_cluster.h"

namespace soapstone::golden {
namespace {

constexpr uint64_t kSeed = 5;
constexpr Clock kStepsPerEpoch = 23;  // 1,438 samples, batches of 64
constexpr int kEpochs = 3;

// The job as flags.
std::string JobFlags(uint32_t workers, uint32_t servers) {
  return absl::StrCat(
      " --model=lenet5 --data_format=digits --data_path=", SOAPSTONE_SOURCE_DIR,
      "/data/digits/digits.csv.gz --policy=bsp --batch=64 --micro_batches=4", " --epochs=", kEpochs,
      " --seed=", kSeed,
      " --optimizer=momentum:lr=0.05,mu=0.9,decay=0.0005 --schedule=cosine:warmup=4 --workers=",
      workers, " --servers=", servers);
}

// The closing table's hash; empty, with the output logged, when `soapstone` fails.
std::string HashOf(const std::string& arguments) {
  const std::string command =
      absl::StrCat(SOAPSTONE_BINARY_DIR, "/bin/soapstone ", arguments, " 2>&1");
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 4096> chunk;
  while (fgets(chunk.data(), chunk.size(), pipe) != nullptr) output += chunk.data();
  const int status = pclose(pipe);
  const std::string key = "parameters, sha256";
  const size_t at = output.find(key);
  if (status != 0 || at == std::string::npos) {
    ADD_FAILURE() << command << "\n" << output;
    return "";
  }
  const size_t begin = output.find_first_not_of(' ', at + key.size());
  return output.substr(begin, 64);
}

TEST(RealClusterTest, BspHasTheBitsOfSequentialSgd) {
  const std::string expected =
      TrainSequentially({.steps = kStepsPerEpoch * kEpochs, .seed = kSeed, .split_seed = kSeed})
          .sha256;
  for (uint32_t workers : {1u, 2u, 4u}) {
    for (uint32_t servers : {1u, 3u}) {
      const std::string log_dir =
          absl::StrCat(::testing::TempDir(), "/real_cluster_", workers, "_", servers);
      EXPECT_EQ(HashOf(absl::StrCat("train", JobFlags(workers, servers), " --log_dir=", log_dir)),
                expected)
          << workers << " workers, " << servers;
    }
  }
}

TEST(RealClusterTest, SoHasTheCommandInVirtualTime) {
  const std::string expected =
      TrainSequentially({.steps = kStepsPerEpoch * kEpochs, .seed = kSeed, .split_seed = kSeed})
          .sha256;
  const std::string job = absl::StrCat(::testing::TempDir(), "/virtual_job.textproto");
  std::ofstream(job) << "model: \"mlp\"  # flags override it\n";
  EXPECT_EQ(HashOf(absl::StrCat("simulate --job=", job, JobFlags(4, 2),
                                " --stragglers=stall:p=0.1,factor=6 --latency_us=50")),
            expected);
}

}  // namespace
}  // namespace soapstone::golden
