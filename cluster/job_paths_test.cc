#include "cluster/job_paths.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cluster/job_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

constexpr char kJob[] = R"(
model: "onnx:m.onnx"
data {
  path: "d/train" labels_path: "../labels" test_path: "/at/root" test_labels_path: "t"
}
training { initial_weights: "w.safetensors" stragglers: "slow:factor=2+trace:file=t.csv,base_us=5" }
output {
  model_path: "out/m" log_dir: "logs" trace_path: "t.csv" record_path: "r" curve_path: "c.csv"
  timeline_path: "e"
}
cluster { scheduler: "ipc://s.sock" strategy: "plan" }
)";

class JobPathsTest : public testing::Test {
 protected:
  JobPathsTest() : here_(fs::current_path()) {
    dir_ = fs::canonical(fs::temp_directory_path()) / ("job_paths_" + std::to_string(::getpid()));
    fs::create_directories(dir_ / "jobs");
    fs::current_path(dir_);
  }
  ~JobPathsTest() override {
    fs::current_path(here_);
    fs::remove_all(dir_);
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

  const fs::path here_;
  fs::path dir_;
};

TEST_F(JobPathsTest, AreRelativeToTheFile) {
  Write("jobs/a.textproto", kJob);
  const auto config = ReadJobFile("jobs/a.textproto");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model(), "onnx:jobs/m.onnx");
  EXPECT_EQ(config->data().path(), "jobs/d/train");
  EXPECT_EQ(config->data().labels_path(), "labels");
  EXPECT_EQ(config->data().test_path(), "/at/root");
  EXPECT_EQ(config->data().test_labels_path(), "jobs/t");
  EXPECT_EQ(config->training().initial_weights(), "jobs/w.safetensors");
  EXPECT_EQ(config->training().stragglers(), "slow:factor=2+trace:file=jobs/t.csv,base_us=5");
  EXPECT_EQ(config->output().model_path(), "jobs/out/m");
  EXPECT_EQ(config->output().log_dir(), "jobs/logs");
  EXPECT_EQ(config->output().trace_path(), "jobs/t.csv");
  EXPECT_EQ(config->output().record_path(), "jobs/r");
  EXPECT_EQ(config->output().curve_path(), "jobs/c.csv");
  EXPECT_EQ(config->output().timeline_path(), "jobs/e");
  EXPECT_EQ(config->cluster().scheduler(), "ipc://jobs/s.sock");
  EXPECT_EQ(config->cluster().strategy(), "jobs/plan");
}

TEST_F(JobPathsTest, AnAddressIsNoPath) {
  Write("jobs/a.textproto", "model: \"mlp\" cluster { scheduler: \"tcp://host:7070\" }");
  EXPECT_EQ(ReadJobFile("jobs/a.textproto")->cluster().scheduler(), "tcp://host:7070");
  Write("jobs/a.textproto", "model: \"mlp\" cluster { scheduler: \"ipc:///run/s\" }");
  EXPECT_EQ(ReadJobFile("jobs/a.textproto")->cluster().scheduler(), "ipc:///run/s");
}

TEST_F(JobPathsTest, OfStragglersAlone) {
  const std::string model = "slow:factor=2+trace:file=t.csv,base_us=5+trace:file=/root.csv";
  EXPECT_EQ(StragglersFromFolder("jobs", model),
            "slow:factor=2+trace:file=jobs/t.csv,base_us=5+trace:file=/root.csv");
  EXPECT_EQ(StragglersFromFolder("", model), model);
}

TEST_F(JobPathsTest, OfAFileHereStayAsTheyAre) {
  Write("a.textproto", kJob);
  EXPECT_EQ(JobText(*ReadJobFile("a.textproto")), JobText(*ParseJobText(kJob, "a")));
}

TEST_F(JobPathsTest, ThatAreNoneStayAsTheyAre) {
  Write("jobs/a.textproto", "model: \"lenet5\" training { initial_weights: \"random\" }");
  const auto config = ReadJobFile("jobs/a.textproto");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model(), "lenet5");
  EXPECT_EQ(config->training().initial_weights(), "random");
  EXPECT_EQ(config->data().path(), "");
  EXPECT_EQ(config->output().log_dir(), "");
}

TEST_F(JobPathsTest, ComeBackFromAFileThatIsWrittenElsewhere) {
  fs::create_directories("runs/one");
  const std::string whole = (dir_ / "runs/one").string();
  for (const std::string& folder : {std::string("runs/one"), whole, std::string(".")}) {
    wire::JobConfig config = *ParseJobText(kJob, "a");
    ToFolder(folder, &config);
    Write(folder + "/job.textproto", JobText(config));
    const auto back = ReadJobFile(folder + "/job.textproto");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(fs::absolute(back->data().path()), dir_ / "d/train") << folder;
    EXPECT_EQ(fs::absolute(back->data().labels_path()).lexically_normal(),
              dir_.parent_path() / "labels");
    EXPECT_EQ(fs::absolute(back->output().model_path()), dir_ / "out/m");
    EXPECT_EQ(back->data().test_path(), "/at/root");
  }
}

TEST_F(JobPathsTest, FindTheirWayThroughLinks) {
  fs::create_directories("far/away");
  fs::create_directory_symlink(dir_ / "far/away", "near");
  Write("far/labels", "");
  Write("near/a.textproto", "data { path: \"../labels\" }");
  const auto config = ReadJobFile("near/a.textproto");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(fs::exists(config->data().path())) << config->data().path();
  wire::JobConfig here = *ParseJobText("data { path: \"far/labels\" }", "a");
  ToFolder("near", &here);
  EXPECT_TRUE(fs::exists(fs::path("near") / here.data().path())) << here.data().path();
}

TEST(FilesRead, AreThoseThatDecideTheResult) {
  using Files = std::vector<std::string>;
  wire::JobConfig config = *ParseJobText(
      "model: \"onnx:m.onnx\" data { path: \"a\" test_path: \"/b\" } "
      "training { initial_weights: \"w\" stragglers: \"trace:file=t.csv\" } "
      "output { model_path: \"o\" }",
      "a");
  EXPECT_EQ(FilesRead(config), (Files{"a", "", "/b", "", "w", "m.onnx"}));
  config.mutable_training()->set_initial_weights("random");
  config.set_model("lenet5");
  EXPECT_EQ(FilesRead(config), (Files{"a", "", "/b", ""}));
  EXPECT_EQ(FilesOfStragglers("slow:factor=2+trace:file=/a/t.csv,base_us=5+trace:file=u.csv"),
            (Files{"/a/t.csv", "u.csv"}));
  EXPECT_EQ(FilesOfStragglers("jitter:sigma=0.2"), Files{});
}

class CheckApartTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / absl::StrCat("apart-", getpid());
    fs::create_directories(folder_ / "sub");
    for (const char* name : {"data", "job", "w", "worker.key"}) std::ofstream(At(name)) << name;
    config_.mutable_data()->set_path(At("data"));
    config_.mutable_training()->set_initial_weights(At("w"));
    config_.mutable_training()->set_stragglers(absl::StrCat("trace:file=", At("t.csv")));
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string Why(const std::vector<FileWritten>& written) const {
    return std::string(CheckApart(written, config_, {At("job"), At("worker.key")}).message());
  }
  fs::path folder_;
  wire::JobConfig config_;
};

TEST_F(CheckApartTest, NothingThatTheJobReadsIsOverwritten) {
  fs::create_symlink(At("data"), At("link"));
  for (const char* name : {"data", "job", "worker.key", "t.csv", "sub/../data", "link"}) {
    EXPECT_EQ(Why({{"output.model_path", At(name)}}),
              absl::StrCat("output.model_path: ", At(name),
                           " is a file that the job reads: give another name"));
  }
  EXPECT_EQ(Why({{"output.model_path", At("new")}}), "");
  EXPECT_EQ(Why({{"output.model_path", ""}}), "");
  EXPECT_EQ(Why({{"output.model_path", At("w"), true}}), "");  // it is trained on
  EXPECT_NE(Why({{"output.curve_path", At("w")}}), "");
}

TEST_F(CheckApartTest, NorIsWrittenIntoAFolderOfData) {
  fs::create_directories(folder_ / "images" / "a");
  config_.mutable_data()->set_path(At("images"));
  for (const bool folder : {false, true}) {
    for (const char* name : {"images/a/1.png", "images/m", "sub/../images/a/new/1"}) {
      EXPECT_EQ(Why({{.said_by = "f", .path = At(name), .folder = folder}}),
                absl::StrCat("f: ", At(name), " is in ", At("images"),
                             ", which the job reads: give another name"));
    }
    EXPECT_EQ(Why({{.said_by = "f", .path = At("images2"), .folder = folder}}), "");
  }
}

TEST_F(CheckApartTest, ALinkToNothingIsWhatItLeadsTo) {
  fs::create_symlink("m", At("link"));
  fs::create_symlink("link", At("further"));
  for (const char* name : {"link", "further"}) {
    EXPECT_EQ(Why({{"a", At(name)}, {"b", At("m")}}),
              absl::StrCat("b: ", At("m"), " is a too: give another name"));
  }
  fs::create_symlink("round", At("round"));
  EXPECT_EQ(Why({{"a", At("round")}, {"b", At("m")}}), "");
}

TEST_F(CheckApartTest, FoldersMayBeSharedButHoldNoneOfWhatIsRead) {
  const auto folder = [](const std::string& path) {
    return FileWritten{.said_by = "f", .path = path, .folder = true};
  };
  EXPECT_EQ(Why({folder(At("x")), folder(At("x")), folder(At("x/y"))}), "");
  EXPECT_EQ(Why({folder(folder_.string()), folder(At("loss.csv"))}), "");
  EXPECT_NE(Why({folder(At("job"))}), "");
}

TEST_F(CheckApartTest, NorWhatItWritesItself) {
  EXPECT_EQ(Why({{"a", At("m")}, {"b", At("n")}}), "");
  EXPECT_EQ(Why({{"a", "/dev/null"}, {"b", "/dev/null"}}), "");
  EXPECT_EQ(Why({{"a", At("m")}, {"b", At("sub/../m")}}),
            absl::StrCat("b: ", At("sub/../m"), " is a too: give another name"));
}

TEST(StragglersWithoutFolders, KeepsTheFilesName) {
  EXPECT_EQ(StragglersWithoutFolders("trace:file=/a/b/t.csv,base_us=5+slow:factor=2"),
            "trace:file=t.csv,base_us=5+slow:factor=2");
  EXPECT_EQ(StragglersWithoutFolders("trace:file=t.csv"), "trace:file=t.csv");
  EXPECT_EQ(StragglersWithoutFolders("none"), "none");
}

}  // namespace
}  // namespace soapstone::apps
