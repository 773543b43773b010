#include "apps/data/public_data.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "apps/report/report.h"
#include "base/nearest_name.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

std::vector<PublicFile> CifarBatches() {
  constexpr uint64_t kBatchBytes = 30'730'000;
  return {{"data_batch_1.bin", kBatchBytes,
           "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", ""},
          {"data_batch_2.bin", kBatchBytes,
           "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", ""},
          {"data_batch_3.bin", kBatchBytes,
           "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", ""},
          {"data_batch_4.bin", kBatchBytes,
           "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", ""},
          {"data_batch_5.bin", kBatchBytes,
           "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", ""},
          {"test_batch.bin", kBatchBytes,
           "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", ""}};
}

std::vector<PublicFile> MnistFiles() {
  return {
      {"train-images-idx3-ubyte", 47'040'016,
       "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", "--data_path"},
      {"train-labels-idx1-ubyte", 60'008,
       "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", "--labels_path"},
      {"t10k-images-idx3-ubyte", 7'840'016,
       "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", "--test_path"},
      {"t10k-labels-idx1-ubyte", 10'008,
       "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", "--test_labels_path"}};
}

std::vector<std::string> MnistCommands() {
  std::vector<std::string> commands;
  for (const PublicFile& file : MnistFiles()) {
    commands.push_back(
        absl::StrCat("curl -LO https://ossci-datasets.s3.amazonaws.com/mnist/", file.name, ".gz"));
  }
  return commands;
}

std::vector<PublicDataSet> SetsOfImages() {
  return {{.name = "digits",
           .what = "1,797 images of handwritten digits, 8x8, which ship with the project",
           .licence = "CC BY 4.0",
           .fetch = {},
           .train = "--model=lenet5 --data_format=digits --epochs=30 --batch=48",
           .example = "examples/digits-lenet5.textproto",
           .files = {{"digits.csv", 264'712,
                      "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
                      "--data_path"}}},
          {.name = "mnist",
           .what = "60,000 and 10,000 images of handwritten digits, 28x28",
           .licence = "CC BY-SA 3.0",
           .fetch = MnistCommands(),
           .train = "--model=lenet5 --data_format=idx --epochs=3 --batch=192",
           .example = "examples/mnist-lenet5.textproto",
           .files = MnistFiles()},
          {.name = "cifar10",
           .what = "50,000 and 10,000 colour images of ten classes, 32x32",
           .licence = "no licence is stated",
           .fetch = {"curl -LO https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                     "tar -xzf cifar-10-binary.tar.gz --strip-components=1"},
           .train = "--model=resnet50:tiny --data_format=cifar10 --epochs=5 --batch=128",
           .folder_flag = "--data_path",
           .files = CifarBatches()},
          {.name = "cifar100",
           .what = "50,000 and 10,000 colour images of a hundred classes, 32x32",
           .licence = "no licence is stated",
           .fetch = {"curl -LO https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                     "tar -xzf cifar-100-binary.tar.gz --strip-components=1"},
           .train = "--model=resnet50:tiny --data_format=cifar100 --epochs=5 --batch=128",
           .folder_flag = "--data_path",
           .files = {{"train.bin", 153'700'000,
                      "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29", ""},
                     {"test.bin", 30'740'000,
                      "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a", ""}}}};
}

std::vector<PublicDataSet> OtherSets() {
  return {
      {.name = "tinyshakespeare",
       .what = "1,115,394 characters of plays, a text",
       .licence = "public domain",
       .fetch = {"curl -LO "
                 "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
                 "tinyshakespeare/input.txt"},
       .train = "--model=rnnlm:tiny --data_format=words --epochs=5 --batch=64",
       .files = {{"input.txt", 1'115'394,
                  "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                  "--data_path"}}},
      {.name = "a9a",
       .what = "32,561 and 16,281 persons of UCI's Adult, 123 binary features",
       .licence = "CC BY 4.0",
       .fetch = {"curl -LO https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/a9a",
                 "curl -LO https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/a9a.t"},
       .train = "--model=logistic --data_format=libsvm --epochs=5 --batch=96",
       .example = "examples/a9a-ftrl.textproto",
       .files = {{"a9a", 2'329'875,
                  "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                  "--data_path"},
                 {"a9a.t", 1'164'628,
                  "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
                  "--test_path"}}},
      {.name = "criteo",
       .what =
           "45,840,617 displays of advertisements and whether they were clicked; some 11 GB, of "
           "which a part is loaded",
       .licence = "Criteo's terms of use",
       .fetch = {"curl -L -o criteo.tar.gz https://go.criteo.net/"
                 "criteo-research-kaggle-display-advertising-challenge-dataset.tar.gz",
                 "mkdir -p data/criteo",
                 "tar -xzOf criteo.tar.gz --wildcards '*train.txt' | head -n 10000000 "
                 "> data/criteo/train.txt"},
       .train = "--model=dlrm --data_format=criteo --epochs=1 --batch=512 "
                "--data_path=data/criteo/train.txt",
       .example = "examples/criteo-dlrm.textproto"}};
}

// Of a folder, its own files, in order of name.
absl::StatusOr<std::vector<fs::path>> FilesOf(const std::string& from) {
  std::error_code error;
  if (!fs::exists(from, error)) {
    return absl::NotFoundError(absl::StrCat("--from=", from, ": there is no such file or folder"));
  }
  if (!fs::is_directory(from, error)) return std::vector<fs::path>{from};
  std::vector<fs::path> files;
  fs::directory_iterator entry(from, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_regular_file(unknown)) files.push_back(entry->path());
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("--from=", from, ": ", error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool IsNamedAs(const fs::path& path, const PublicFile& file) {
  return absl::StripSuffix(path.filename().string(), ".gz") == file.name;
}

std::string HashOf(const std::string& bytes) {
  Sha256 digest;
  digest.Update(bytes.data(), bytes.size());
  return digest.HexDigest();
}

// What is in the set's files, by name.
absl::StatusOr<std::map<std::string, std::string>> Find(const PublicDataSet& set,
                                                        const std::string& from) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<fs::path> paths, FilesOf(from));
  uint64_t bytes_max = 0;
  for (const PublicFile& file : set.files) bytes_max = std::max(bytes_max, file.bytes);
  std::map<std::string, std::string> found, why_not;
  for (const fs::path& path : paths) {
    absl::StatusOr<std::string> bytes = models::ReadMaybeGzip(path.string(), bytes_max);
    const std::string hash = bytes.ok() ? HashOf(*bytes) : "";
    for (const PublicFile& file : set.files) {
      if (hash == file.sha256) {
        found[file.name] = *bytes;
      } else if (IsNamedAs(path, file)) {
        why_not[file.name] =
            bytes.ok() ? absl::StrCat(path.string(), " is not the published file: SHA-256 ", hash,
                                      " unpacked, not ", file.sha256)
                       : std::string(bytes.status().message());
      }
    }
  }
  for (const PublicFile& file : set.files) {
    if (found.contains(file.name)) continue;
    const auto why = why_not.find(file.name);
    return absl::InvalidArgumentError(
        why != why_not.end()
            ? absl::StrCat(set.name, ": ", why->second)
            : absl::StrCat(set.name, ": ", file.name, " (", WithCommas(file.bytes),
                           " bytes unpacked) is not in ", from, "; `soapstone data ", set.name,
                           "` says where it is published"));
  }
  return found;
}

}  // namespace

const std::vector<PublicDataSet>& PublicDataSets() {
  static const auto& sets = *new std::vector<PublicDataSet>([] {
    std::vector<PublicDataSet> all = SetsOfImages();
    std::vector<PublicDataSet> others = OtherSets();
    for (PublicDataSet& set : others) all.push_back(std::move(set));
    return all;
  }());
  return sets;
}

absl::StatusOr<PublicDataSet> PublicDataSetOf(const std::string& name) {
  std::vector<std::string> names;
  for (const PublicDataSet& set : PublicDataSets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  return absl::NotFoundError(absl::StrCat("no data set \"", name, "\"", DidYouMean(name, names),
                                          " (", absl::StrJoin(names, ", "), ")"));
}

std::string UsualFolder(const PublicDataSet& set) { return absl::StrCat("data/", set.name); }

std::string TrainFlags(const PublicDataSet& set, const std::string& folder) {
  std::string flags = set.train;
  if (!set.folder_flag.empty()) absl::StrAppend(&flags, " ", set.folder_flag, "=", folder);
  for (const PublicFile& file : set.files) {
    if (file.flag.empty()) continue;
    absl::StrAppend(&flags, " ", file.flag, "=", folder, "/", file.name);
  }
  return flags;
}

absl::Status LayOut(const PublicDataSet& set, const std::string& from, const std::string& to) {
  SOAP_ASSIGN_OR_RETURN(const auto found, Find(set, from));
  std::error_code error;
  fs::create_directories(to, error);
  for (const auto& [name, bytes] : found) {
    const std::string path = absl::StrCat(to, "/", name);
    const std::string fresh = absl::StrCat(path, ".new");
    std::ofstream file(fresh, std::ios::binary);
    file << bytes;
    file.close();
    if (file && std::rename(fresh.c_str(), path.c_str()) == 0) continue;
    const std::string why = std::strerror(errno);
    fs::remove(fresh, error);
    return absl::InvalidArgumentError(
        absl::StrCat("--to=", to, ": cannot write ", path, ": ", why));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::apps
