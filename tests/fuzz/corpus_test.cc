// Runs every file of tests/fuzz/corpus, and changes of it that a counter decides, through its fuzz
// target. Here as everywhere a target ends the process where a promise is broken; besides, no input
// may take seconds, or memory by a length that it only announces.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"

#define FUZZ_TARGET(name) extern "C" int Fuzz_##name(const uint8_t* data, size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace {

constexpr size_t kAllocationMax = size_t{256} << 20;

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// Of the sanitizer, which sees malloc too.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }
#else
// No input is larger than a few kilobytes.
void* operator new(size_t size, std::align_val_t alignment) {
  const auto bytes = static_cast<size_t>(alignment);
  void* memory = size > kAllocationMax
                     ? nullptr
                     : std::aligned_alloc(bytes, (size + bytes - 1) / bytes * bytes);
  if (memory != nullptr) return memory;
  std::fprintf(stderr, "an allocation of %zu bytes\n", size);
  std::abort();
}
void* operator new(size_t size) {
  return ::operator new (size, std::align_val_t{alignof(std::max_align_t)});
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace soapstone::fuzz {
namespace {

using Target = int (*)(const uint8_t* data, size_t size);

constexpr size_t kChangesOfAFile = 500;
constexpr size_t kChangesMax = 10'000;  // of all files of a target
constexpr size_t kInputMax = 16'384;
constexpr auto kSecondsMax = std::chrono::seconds(10);  // sanitized, on a busy machine

struct NamedTarget {
  const char* name;
  Target run;
};

#define FUZZ_TARGET(name) {#name, Fuzz_##name},
constexpr NamedTarget kTargets[] = {
#include "fuzz_targets.inc"
};
#undef FUZZ_TARGET

// Numbers, one after the other.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed, RandomUse::kTest) {}
  size_t Below(size_t n) { return n == 0 ? 0 : random_.Below(at_++, n); }

 private:
  CounterRandom random_;
  uint64_t at_ = 0;
};

void ChangeOnce(const std::vector<std::string>& others, Draws* draws, std::string* input) {
  static constexpr uint64_t kNumbers[] = {0,
                                          1,
                                          7,
                                          8,
                                          0x7f,
                                          0x80,
                                          0xff,
                                          0x7fff,
                                          0xffff,
                                          0x10000,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0xfffffff8,
                                          ~uint64_t{0},
                                          uint64_t{1} << 63};
  const size_t at = draws->Below(input->size() + 1);
  const size_t length = 1 + draws->Below(std::min<size_t>(64, input->size() + 1));
  switch (draws->Below(8)) {
    case 0:
      if (at < input->size()) (*input)[at] ^= static_cast<char>(1 << draws->Below(8));
      break;
    case 1:
      if (at < input->size()) (*input)[at] = static_cast<char>(draws->Below(256));
      break;
    case 2: {
      const uint64_t number = kNumbers[draws->Below(std::size(kNumbers))];
      const size_t bytes = size_t{1} << draws->Below(4);
      if (at + bytes <= input->size()) std::memcpy(input->data() + at, &number, bytes);
      break;
    }
    case 3:
      input->erase(at, length);
      break;
    case 4:
      input->insert(at, input->substr(draws->Below(input->size() + 1), length));
      break;
    case 5:
      input->resize(at);
      break;
    case 6:
      input->insert(at, length, static_cast<char>(draws->Below(256)));
      break;
    case 7: {
      const std::string& other = others[draws->Below(others.size())];
      input->replace(at, length, other.substr(draws->Below(other.size() + 1), 4 * length));
      break;
    }
  }
  if (input->size() > kInputMax) input->resize(kInputMax);
}

std::vector<std::filesystem::path> FilesOf(const std::string& target) {
  std::vector<std::filesystem::path> files;
  const std::string dir = std::string(SOAPSTONE_SOURCE_DIR) + "/tests/fuzz/corpus/" + target;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  EXPECT_TRUE(file.good()) << path;
  return bytes.str();
}

class CorpusTest : public testing::TestWithParam<NamedTarget> {
 protected:
  // Where the process ends, $TMPDIR/fuzz-NAME.input is what it was given.
  void Run(const std::string& input, const std::string& what) {
    const std::string kept = testing::TempDir() + "/fuzz-" + GetParam().name + ".input";
    std::ofstream(kept, std::ios::binary | std::ios::trunc) << input;
    const auto begin = std::chrono::steady_clock::now();
    GetParam().run(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kSecondsMax) << what;
    std::filesystem::remove(kept);
  }
};

TEST_P(CorpusTest, EveryFileAndChangesOfIt) {
  const std::vector<std::filesystem::path> files = FilesOf(GetParam().name);
  ASSERT_FALSE(files.empty());
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    inputs.push_back(Contents(file));
    Run(inputs.back(), file.filename().string());
  }
  Run("", "no input");
  const size_t each = std::min(kChangesOfAFile, kChangesMax / files.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Draws draws(i);
    for (size_t change = 0; change < each; ++change) {
      std::string input = inputs[i];
      for (size_t left = 1 + draws.Below(4); left > 0; --left) ChangeOnce(inputs, &draws, &input);
      Run(input, files[i].filename().string() + ", change " + std::to_string(change));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CorpusTest, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace soapstone::fuzz
