// Writes the first files of the corpora: what the project's own writers write, and a little by
// hand. Usage: make_corpus tests/fuzz/corpus. Files that were found and kept, found-*, are left as
// they are.
#include <png.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cluster/recording_format.h"
#include "glog/logging.h"
#include "models/formats/onnx/onnx_bytes.h"
#include "models/formats/safetensors_writer.h"
#include "observe/timeline/event_file_format.h"
#include "tests/fuzz/corpus_folder.h"
#include "tests/fuzz/corpus_messages.h"

namespace soapstone::fuzz {
namespace {

namespace fs = std::filesystem;

std::string FileAt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file) << path;
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// ---- Files

std::string Onnx(const std::vector<models::ProtoBytes>& nodes,
                 const std::vector<models::ProtoBytes>& initializers,
                 const std::vector<int64_t>& dims, int64_t type = 1) {
  models::OnnxParts parts;
  parts.nodes = nodes;
  parts.initializers = initializers;
  parts.inputs = {models::OnnxInputBytes("x", dims, type)};
  return parts.Bytes();
}

using models::OnnxFloats;
using models::OnnxInt;
using models::OnnxIntegers;
using models::OnnxInts;
using models::OnnxNodeBytes;

std::vector<float> Halves(size_t n) { return std::vector<float>(n, 0.5f); }

void OnnxConvolution(const Corpus& corpus) {
  corpus.Put(
      "onnx", "convolution",
      Onnx({OnnxNodeBytes("Conv", {"x", "c.weight", "c.bias"}, {"a"},
                          {OnnxInts("kernel_shape", {3, 3}), OnnxInts("pads", {1, 1, 1, 1})}),
            OnnxNodeBytes("Relu", {"a"}, {"b"}),
            OnnxNodeBytes("MaxPool", {"b"}, {"c"},
                          {OnnxInts("kernel_shape", {2, 2}), OnnxInts("strides", {2, 2})}),
            OnnxNodeBytes("Shape", {"c"}, {"s"}),
            OnnxNodeBytes("Constant", {}, {"zero"}, {OnnxInt("value_int", 0)}),
            OnnxNodeBytes("Gather", {"s", "zero"}, {"n"}, {OnnxInt("axis", 0)}),
            OnnxNodeBytes("Unsqueeze", {"n", "axes"}, {"n1"}),
            OnnxNodeBytes("Concat", {"n1", "rest"}, {"shape"}, {OnnxInt("axis", 0)}),
            OnnxNodeBytes("Reshape", {"c", "shape"}, {"d"}),
            OnnxNodeBytes("Gemm", {"d", "f.weight", "f.bias"}, {"e"}),
            OnnxNodeBytes("Softmax", {"e"}, {"y"})},
           {OnnxFloats("c.weight", {2, 1, 3, 3}, Halves(18)), OnnxFloats("c.bias", {2}, Halves(2)),
            OnnxIntegers("axes", {1}, {0}), OnnxIntegers("rest", {1}, {-1}),
            OnnxFloats("f.weight", {8, 3}, Halves(24)), OnnxFloats("f.bias", {3}, Halves(3))},
           {1, 4, 4}));
}

void OnnxFiles(const Corpus& corpus) {
  OnnxConvolution(corpus);
  const models::ProtoBytes gemm =
      OnnxNodeBytes("Gemm", {"flat", "f.weight"}, {"y"}, {OnnxInt("transB", 1)});
  const models::ProtoBytes flatten = OnnxNodeBytes("Flatten", {"z"}, {"flat"});
  const auto around = [&](const models::ProtoBytes& node, std::vector<models::ProtoBytes> more,
                          const std::vector<int64_t>& dims, int64_t features) {
    more.push_back(
        OnnxFloats("f.weight", {2, features}, Halves(static_cast<size_t>(2 * features))));
    return Onnx({node, flatten, gemm}, more, dims);
  };
  corpus.Put("onnx", "batch-normalisation",
             around(OnnxNodeBytes("BatchNormalization", {"x", "g", "b", "m", "v"}, {"z"}),
                    {OnnxFloats("g", {2}, Halves(2)), OnnxFloats("b", {2}, Halves(2)),
                     OnnxFloats("m", {2}, Halves(2)), OnnxFloats("v", {2}, Halves(2))},
                    {2, 2, 2}, 8));
  corpus.Put("onnx", "transpose",
             around(OnnxNodeBytes("Transpose", {"x"}, {"z"}, {OnnxInts("perm", {0, 2, 1})}), {},
                    {2, 3}, 6));
  corpus.Put("onnx", "slice",
             around(OnnxNodeBytes("Slice", {"x", "s", "e", "a"}, {"z"}),
                    {OnnxIntegers("s", {1}, {1}), OnnxIntegers("e", {1}, {3}),
                     OnnxIntegers("a", {1}, {1})},
                    {4}, 2));
  corpus.Put(
      "onnx", "reduce",
      around(OnnxNodeBytes("ReduceMean", {"x"}, {"z"}, {OnnxInts("axes", {-1})}), {}, {2, 3}, 2));
  corpus.Put(
      "onnx", "dropout",
      around(OnnxNodeBytes("Dropout", {"x", "r"}, {"z"}), {OnnxFloats("r", {}, {0.25f})}, {4}, 4));
  corpus.Put("onnx", "normalisation",
             around(OnnxNodeBytes("LRN", {"x"}, {"z"}, {OnnxInt("size", 3)}), {}, {4, 1, 1}, 4));
  corpus.Put(
      "onnx", "embedding",
      Onnx({OnnxNodeBytes("Gather", {"table", "x"}, {"z"}), flatten, gemm},
           {OnnxFloats("table", {5, 2}, Halves(10)), OnnxFloats("f.weight", {2, 6}, Halves(12))},
           {3}, 7));
  corpus.Put(
      "onnx", "lstm",
      Onnx({OnnxNodeBytes("Transpose", {"x"}, {"t"}, {OnnxInts("perm", {1, 0, 2})}),
            OnnxNodeBytes("LSTM", {"t", "w", "r", "b"}, {"o", "h"}, {OnnxInt("hidden_size", 2)}),
            OnnxNodeBytes("Squeeze", {"h", "a"}, {"z"}), gemm},
           {OnnxFloats("w", {1, 8, 3}, Halves(24)), OnnxFloats("r", {1, 8, 2}, Halves(16)),
            OnnxFloats("b", {1, 16}, Halves(16)), OnnxIntegers("a", {1}, {0}),
            OnnxFloats("f.weight", {2, 2}, Halves(4))},
           {4, 3}));
  corpus.Put("onnx", "doubling",
             Onnx({OnnxNodeBytes("Shape", {"x"}, {"s"}),
                   OnnxNodeBytes("Concat", {"s", "s"}, {"t"}, {OnnxInt("axis", 0)}),
                   OnnxNodeBytes("Concat", {"t", "t"}, {"u"}, {OnnxInt("axis", 0)}),
                   OnnxNodeBytes("Reshape", {"x", "u"}, {"y"})},
                  {}, {4}));
}

std::string Safetensors(const std::string& header, const std::string& data) {
  return Bytes(uint64_t{header.size()}) + header + data;
}

void SafetensorsFiles(const Corpus& corpus) {
  const std::string path = fs::temp_directory_path() / "corpus.safetensors";
  const std::vector<float> weight(8, 0.5f), bias(2, 1.0f);
  const std::vector<uint64_t> keys = {1, 2};
  const std::vector<models::NamedTensor> tensors = {
      {"rows.keys", {2}, {}, keys}, {"fc.weight", {2, 4}, weight}, {"fc.bias", {2}, bias}};
  CHECK(models::WriteSafetensors(path, tensors, {{"made_by", "soapstone"}}).ok());
  corpus.Put("safetensors", "written", FileAt(path));
  CHECK(models::WriteSafetensors(path, absl::MakeConstSpan(tensors).subspan(1), {}).ok());
  corpus.Put("safetensors", "softmax", FileAt(path));
  fs::remove(path);
  corpus.Put("safetensors", "halves",
             Safetensors(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"BF16","shape":[],"data_offsets":[4,6]}})",
                         "abcdef"));
  corpus.Put("safetensors", "empty", Safetensors("{}", ""));
  corpus.Put(
      "safetensors", "name-of-lines",
      Safetensors("{\"a\\nb\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2]}}",
                  "ab"));
  corpus.Put("safetensors", "deep", Safetensors("{\"a\":" + std::string(500, '['), ""));
}

std::string Png(uint32_t width, uint32_t height, uint32_t format) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image) + 16);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  std::vector<uint8_t> map(PNG_IMAGE_COLORMAP_SIZE(image) + 1024, 77);
  if ((format & PNG_FORMAT_FLAG_COLORMAP) != 0) {
    image.colormap_entries = 4;
    for (uint8_t& pixel : pixels) pixel %= 4;
  }
  png_alloc_size_t size = 1 << 16;
  std::string bytes(size, '\0');
  CHECK(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, map.data()));
  bytes.resize(size);
  return bytes;
}

void Images(const Corpus& corpus) {
  corpus.Put("png", "grey", Png(5, 3, PNG_FORMAT_GRAY));
  corpus.Put("png", "colour", Png(3, 4, PNG_FORMAT_RGB));
  corpus.Put("png", "transparent", Png(2, 2, PNG_FORMAT_RGBA));
  corpus.Put("png", "sixteen-bits", Png(2, 3, PNG_FORMAT_LINEAR_RGB));
  corpus.Put("png", "palette", Png(4, 4, PNG_FORMAT_RGB_COLORMAP));
  // A header of 16384×16384 pixels before the data of few.
  std::string announced = Png(5, 3, PNG_FORMAT_GRAY);
  for (const size_t at : {size_t{16}, size_t{20}})
    announced.replace(at, 4, std::string("\0\0\x40\0", 4));
  const auto crc =
      static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(announced.data() + 12), 17));
  for (int i = 0; i < 4; ++i) announced[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  corpus.Put("png", "announced", announced);
}

std::string Gzip(const std::string& text) {
  const std::string path = fs::temp_directory_path() / "corpus.gz";
  gzFile file = gzopen(path.c_str(), "wb9");
  CHECK(file != nullptr);
  CHECK_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
           static_cast<int>(text.size()));
  gzclose(file);
  std::string bytes = FileAt(path);
  fs::remove(path);
  return bytes;
}

void Tables(const Corpus& corpus) {
  const std::string csv = "a,b,c,d,label\n1,2,3,4,0\n5,6,7,8,1\n\n1e3,-2.5, 0 ,4,2\r\n";
  corpus.Put("csv", "vectors", std::string(2, '\0') + csv);
  corpus.Put("csv", "images", std::string("\x02\x02") + csv);
  corpus.Put("csv", "gzip", std::string(2, '\0') + Gzip(csv));
  std::string digit;
  for (int i = 0; i < 64; ++i) absl::StrAppend(&digit, i % 17, ",");
  corpus.Put("csv", "digits", std::string("\xff\0", 2) + digit + "3\n" + digit + "4\n");
  const auto idx = [](const std::string& dims, const std::string& values) {
    return std::string("\0\0\x08", 3) + static_cast<char>(dims.size()) + [&] {
      std::string header;
      for (const char d : dims) header += std::string(3, '\0') + d;
      return header;
    }() + values;
  };
  const std::string images = idx("\x03\x02\x02", "abcdefghijkl"),
                    labels = idx("\x03", std::string("\0\1\2", 3));
  corpus.Put("idx", "images", Bytes(static_cast<uint16_t>(images.size())) + images + labels);
  const std::string none =
      std::string("\0\0\x08\x03", 4) + std::string(4, '\0') + std::string(8, '\xff');
  corpus.Put(
      "idx", "no-images",
      Bytes(static_cast<uint16_t>(none.size())) + none + std::string("\0\0\x08\x01\0\0\0\0", 8));
  const auto sparse = [&](char format, const std::string& name, const std::string& text) {
    corpus.Put("libsvm", name, std::string(1, format) + text);
  };
  sparse(0, "libsvm", "+1 3:1 11:0.5 14:1\n-1 1:2 2:1e-3\n0\n");
  sparse(1, "triples", "user,item,rating\n1,2,3.5\n4\t5\t6\n7 8 9 10\n");
  sparse(2, "text", "the cat and the dog and the bird saw a cat\n");
  sparse(3, "criteo", "1\t2\t\ta1,b2\t\n0\t-3\t44\tff\t0123456789abcde\n");
  const auto tokens = [&](char format, const std::string& name, const std::string& text) {
    corpus.Put("tokens", name, std::string(1, format) + '\x03' + Bytes(uint16_t{16}) + text);
  };
  tokens(0, "bytes", "some bytes, and some more of them\n");
  tokens(1, "words", "one line of words\nanother line of words\n\nthe last line");
  tokens(2, "parallel", "a b\tc d\ne\tf\n\ng h\ti\nj\tk\n");
}

std::string Event(sim::EventKind kind, const wire::Message& message) {
  sim::RecordedEvent event = sim::EventOf(123, message);
  event.kind = kind;
  return Bytes(event);
}

void Recordings(const Corpus& corpus) {
  const auto header = [](wire::Role role) {
    return Bytes(sim::RecordingHeader{.state = sim::RecordingState::kClosed,
                                      .job_digest = 5,
                                      .session = 9,
                                      .role = static_cast<uint32_t>(role)});
  };
  std::string messages = header(wire::Role::kShard);
  for (const Sent& sent : Messages()) messages += Event(sim::EventKind::kMessage, sent.message);
  std::string device = header(wire::Role::kWorker);
  device +=
      Bytes(sim::EventOf(5, worker::DeviceEvent{.run = 3, .instruction = 17, .compute_ns = 900}));
  device += std::string(sim::kEventBytes, '\0');
  corpus.Put("recording", "messages",
             Bytes(static_cast<uint16_t>(messages.size())) + messages + device);
  corpus.Put("recording", "torn",
             Bytes(static_cast<uint16_t>(messages.size())) + messages +
                 device.substr(0, device.size() - 60));
}

// Of a worker's loop and of a shard: a step, a push and its apply, a pull and its answer.
void Timelines(const Corpus& corpus) {
  using timeline::EventKind;
  const auto file = [](timeline::ThreadKind kind, const std::vector<timeline::Event>& events) {
    const std::string names = "linear1\nlinear2";
    const timeline::FileHeader header = {.magic = timeline::kMagic,
                                         .kind = kind,
                                         .names_bytes = static_cast<uint32_t>(names.size()),
                                         .capacity = 24,
                                         .session = 9,
                                         .machine = 3,
                                         .host = {'a'},
                                         .written = events.size()};
    std::string bytes = Bytes(header);
    bytes.resize(timeline::kNamesAt, '\0');
    bytes += names;
    bytes.resize(timeline::SlotsAt(header.names_bytes), '\0');
    for (const timeline::Event& event : events) bytes += Bytes(event);
    bytes.resize(timeline::FileBytes(header.names_bytes, header.capacity), '\0');
    return bytes;
  };
  const std::string loop =
      file(timeline::ThreadKind::kWorkerLoop, {{100, 900, 0, 0, EventKind::kStep},
                                               {700, 710, 0, 77, EventKind::kPush},
                                               {720, 890, 1, 0, EventKind::kPull, 0, 3, 4}});
  const std::string device =
      file(timeline::ThreadKind::kWorkerDevice,
           {{110, 300, 0, 0, EventKind::kForward, 0}, {310, 690, 0, 0, EventKind::kBackward, 1}});
  const std::string shard =
      file(timeline::ThreadKind::kShard,
           {{705, 800, 0, 77, EventKind::kApply}, {810, 850, 1, 0, EventKind::kAnswer}});
  const auto put = [&](const char* name, const std::string& first, const std::string& second) {
    corpus.Put("timeline", name, Bytes(static_cast<uint16_t>(first.size())) + first + second);
  };
  put("flow", loop, shard);
  put("device", loop, device);
  put("torn", loop, shard.substr(0, shard.size() - 30));
}

// ---- Texts

void Texts(const Corpus& corpus, const std::string& root) {
  for (const char* name : {"a9a-ftrl", "criteo-dlrm", "digits-lenet5", "mnist-lenet5"}) {
    corpus.Put("job", name, FileAt(absl::StrCat(root, "/examples/", name, ".textproto")));
  }
  for (const char* policy :
       {"bsp", "ssp:s=2", "essp:s=1", "dssp:low=1,high=3", "psp:beta=2", "pssp:s=2,c=0.5", "async",
        "softsync:c=2", "dcasgd:lambda=0.1", "value:bound=0.5", "easgd:tau=4,mode=sync",
        "localsgd:tau=4", "bmuf:tau=8", "backup:b=1", "tree:groups=2", "allreduce", "eager",
        "gossip:mode=pushsum"}) {
    corpus.Put(
        "job", absl::StrReplaceAll(policy, {{":", "-"}, {",", "-"}, {"=", "-"}}),
        absl::StrCat("model: \"mlp\"\npolicy: \"", policy,
                     "\"\ntraining { epochs: 1 batch: 32 optimizer: \"momentum:lr=0.05,mu=0.9\" ",
                     "schedule: \"cosine:warmup=20\" ",
                     "stragglers: \"jitter:sigma=0.2+stall:p=0.02,factor=6\" }\n",
                     "cluster { servers: 2 workers: 4 }\n"));
  }
  for (const char* name : {"dgx_h100_pod", "heterogeneous_pair", "k80_16x4", "p100_4x4"}) {
    corpus.Put("machine", name,
               FileAt(absl::StrCat(root, "/examples/machines/", name, ".machine.textproto")));
  }
  const std::string head =
      "version: 1\nmodel: \"mlp\"\nmodel_sha256: \"MODEL\"\nflops_per_second: 1000000000\n"
      "bytes_per_second: 100000000\n";
  corpus.Put("costs", "linear",
             head +
                 "operators { op: \"linear(outputs=10)\" inputs { dims: 8 dims: 64 } outputs { "
                 "dims: 8 dims: 10 } forward_ns: 1000 backward_ns: 2000 forward_flops: 10240 "
                 "backward_flops: 20480 forward_bytes: 4000 backward_bytes: 8000 repeats: 5 "
                 "names: \"fc1\" }\n");
  corpus.Put("costs", "lstm",
             head +
                 "operators { op: \"lstm(hidden=4)\" inputs { dims: 8 dims: 3 dims: 4 } outputs { "
                 "dims: 8 dims: 3 dims: 4 } forward_ns: 1000 forward_flops: 1024 "
                 "forward_bytes: 4000 }\n");
  corpus.Put("costs", "lstm-overflow",
             head +
                 "operators { op: \"lstm(hidden=4)\" outputs { dims: 8 dims: 3 dims: "
                 "9223372036854775807 } forward_flops: 18446744073709551615 }\n");
}

}  // namespace

void WriteCorpora(const std::string& dir) {
  const Corpus corpus(dir);
  Frames(corpus);
  Streams(corpus);
  LinksInMemory(corpus);
  OnnxFiles(corpus);
  SafetensorsFiles(corpus);
  Images(corpus);
  Tables(corpus);
  Recordings(corpus);
  Timelines(corpus);
  Texts(corpus, dir + "/../../..");
}

}  // namespace soapstone::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 64;
  }
  soapstone::fuzz::WriteCorpora(argv[1]);
  return 0;
}
