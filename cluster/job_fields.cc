// The fields of a job that flags override: their names, help, and how a flag's text becomes a
// value.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cluster/job_config.h"

namespace soapstone::apps {
namespace {

namespace pb = google::protobuf;

constexpr JobField kFields[] = {
    {"model", "model",
     "Model of the zoo, such as lenet5 or resnet50:tiny (see `soapstone models`), or onnx:FILE; of "
     "tables: logistic, matrix_factorisation:dim=8, skip_gram:dim=32, dlrm"},
    {"policy", "policy", "Consistency policy, such as ssp:s=2 (see `soapstone policies`)"},
    {"strict", "strict", "End the run with exit code 76 when the policy's guarantee is broken"},
    {"data_format", "data.format",
     "Format of the data: digits, csv, idx, cifar10, cifar100, images (a folder), bytes, words, "
     "parallel, copy, criteo or clicks; of tables: libsvm, triples, text, criteo or clicks"},
    {"data_path", "data.path", "Training data (idx: the images); may be gzip"},
    {"labels_path", "data.labels_path", "idx: training labels"},
    {"test_path", "data.test_path", "Held-out data; without it a share of the training data"},
    {"test_labels_path", "data.test_labels_path", "idx: held-out labels"},
    {"test_fraction", "data.test_fraction", "Held-out share where there is no --test_path [0.2]"},
    {"scale", "data.scale",
     "Images are divided by this [255; digits, csv, idx: the largest training value]"},
    {"height", "data.height", "csv, images: height of the images"},
    {"width", "data.width", "csv, images: width of the images"},
    {"channels", "data.channels", "images: channels [as the first PNG]"},
    {"length", "data.length", "bytes, words, parallel, copy: tokens of a sequence [40; copy: 8]"},
    {"vocabulary", "data.vocabulary",
     "words, parallel, copy: different tokens [10000; parallel: 32000; copy: 32]; clicks: "
     "categories "
     "of the largest column [1000]"},
    {"samples", "data.samples", "copy: sentences [10000]; clicks: samples [20000]"},
    {"augment", "data.augment", "Random changes to training images, such as crop:pad=4+flip"},
    {"separator", "data.separator",
     "csv: what separates cells: comma, semicolon or tab [auto: by the first lines]"},
    {"label_column", "data.label_column",
     "csv: the labels' column: its number, from 1, or its name in the header [the last]"},
    {"missing", "data.missing",
     "csv: a missing value: stop: is an error; drop: its row is left out and counted [stop]"},
    {"epochs", "training.epochs", "Passes over the training data"},
    {"steps", "training.steps", "End after so many steps, if the epochs have more [all of them]"},
    {"batch", "training.batch", "Samples of a global batch, over all workers"},
    {"micro_batches", "training.micro_batches",
     "Leaves of the fixed summation tree [as many as workers]"},
    {"seed", "training.seed", "Seed of the initial values and of the data's order"},
    {"initial_weights", "training.initial_weights",
     "Start from this safetensors file; random: from the seed [an ONNX file's own; else random]"},
    {"optimizer", "training.optimizer", "Such as momentum:lr=0.05,mu=0.9,decay=1e-4"},
    {"schedule", "training.schedule", "Learning rate: constant, step:.., cosine:warmup=20"},
    {"stragglers", "training.stragglers",
     "Delays that the workers inject, such as slow:workers=1,factor=2 [none]"},
    {"on_nonfinite", "training.on_nonfinite",
     "What a worker does with a gradient that is not finite: stop: it ends the job with exit code "
     "79; skip: it is left out and counted [stop]"},
    {"evaluation", "training.evaluation",
     "Of held-out samples: end: once the model is trained; none [end]"},
    {"base_ms", "training.base_ms",
     "Stretch an iteration to this many ms, times its straggler factor [as long as it takes]"},
    {"servers", "cluster.servers", "Server processes [of train: 1]"},
    {"workers", "cluster.workers", "Worker processes [of train: one a core, 8 at most]"},
    {"strategy", "cluster.strategy",
     "Split the model over the workers as this file of `soapstone plan` says; auto, of train: plan "
     "first, and split it where that is faster [each runs all of it]"},
    {"teams", "cluster.teams",
     "Teams that each run the strategy with a batch of its size, joined by --policy [1]"},
    {"replicas", "cluster.replicas",
     "Servers that keep each shard: of a lost server's shards others go on, to the same bits [1]"},
    {"shards_per_server", "cluster.shards_per_server",
     "Shards, each a thread, of a server [1; 8 with --communication=priority; with a strategy it "
     "says how many]"},
    {"scheduler", "cluster.scheduler", "Endpoint of the scheduler, such as tcp://host:7070"},
    {"heartbeat_s", "cluster.heartbeat_s", "Seconds between heartbeats [0.5]"},
    {"heartbeat_timeout_s", "cluster.heartbeat_timeout_s", "Silent for this long is lost [5]"},
    {"link_timeout_s", "cluster.link_timeout_s",
     "A connection that cannot be made again for this long is lost [--heartbeat_timeout_s]"},
    {"link_bytes", "cluster.link_bytes",
     "Kept for another node until it has them; more has to wait [512 MiB, or 1/16 of the memory]"},
    {"start_timeout_s", "cluster.start_timeout_s", "All must have registered by then [60]"},
    {"grace_s", "cluster.grace_s",
     "SIGTERM: time to finish the step in hand and leave; a second SIGTERM is at once [25]"},
    {"bucket_bytes", "cluster.bucket_bytes", "Size at which a push message is closed [1 MiB]"},
    {"rebalance", "cluster.rebalance", "Share each batch out by the workers' measured speed"},
    {"communication", "cluster.communication",
     "fifo, or priority: shards by layers, the first layers' messages first [fifo]"},
    {"transport", "cluster.transport",
     "auto: shared memory between nodes of a machine; sockets: never; zeromq: no streams [auto]"},
    {"security", "cluster.security",
     "auto: by keys where --key is given; required: an error without; off: an error with [auto]"},
    {"device", "cluster.device",
     "What workers compute on: cpu; cuda: a GPU, and where there is none the processor, with a "
     "warning; auto: the same without [cpu]"},
    {"threads", "cluster.threads",
     "Threads with which a worker computes on the processor; under bsp the same bits need the same "
     "number [1]"},
    {"precision", "cluster.precision",
     "Of the factors that workers multiply: float32; bf16, where the processor or the device has "
     "it; tf32, a device's alone. Parameters, gradients and sums stay float32 [float32]"},
    {"isa", "cluster.isa",
     "The most that workers' processors compute with: sse41, avx2 or avx512; auto: what each has. "
     "Under bsp the same bits need the same [auto]"},
    {"table_rows_max", "cluster.table_rows_max",
     "Rows of a table on a shard; beyond, those not used for longest go [no end]"},
    {"model_path", "output.model_path", "Where server 0 writes the model (safetensors)"},
    {"log_dir", "output.log_dir", "Directory of the log files"},
    {"record_trace", "output.trace_path",
     "Write the workers' iteration times to this CSV (--stragglers=trace:file=.. replays it)"},
    {"record", "output.record_path",
     "Record what every actor handles in this folder, a new one (`soapstone replay` replays it)"},
    {"tensorboard", "output.tensorboard_path",
     "Write loss, rate, lags and learning rate by clock to a TensorBoard event file in this "
     "folder"},
    {"timeline", "output.timeline_path",
     "Write what each process does into this folder (`soapstone timeline` draws it)"},
    {"timeline_clocks", "output.timeline_clocks",
     "Only of these clocks, such as 100:120; the last is not included [all, the latest stay]"},
    {"checkpoint", "output.checkpoint_path",
     "Write checkpoints into this folder, the last two of which stay (docs/durability.md)"},
    {"checkpoint_every", "output.checkpoint_every",
     "Clocks from a checkpoint to the next [those of an epoch]"},
    {"resume", "output.resume",
     "Go on from a checkpoint of --checkpoint: auto: the newest that is whole, or the start where "
     "there is none; CLOCK: that one; never: the folder must have none [never]"},
    {"keep_best", "output.keep_best",
     "Evaluate each checkpoint on the held-out samples, and keep the best too: DIR/best"},
    {"early_stop", "output.early_stop",
     "With --keep_best: stop after so many evaluations in a row that are not better than the best, "
     "and write that as the model [train to the end]"},
    {"curve", "output.curve_path", "Write loss and held-out accuracy against time to this CSV"},
    {"curve_every", "output.curve_every",
     "Samples from a point of the curve to the next [a sixtieth of the run]"},
};

// The message that holds the field `path` names, and the field.
pb::Message* FindHolder(const std::string& path, pb::Message* root,
                        const pb::FieldDescriptor** field) {
  pb::Message* holder = root;
  const std::vector<std::string> steps = absl::StrSplit(path, '.');
  for (size_t i = 0;; ++i) {
    *field = holder->GetDescriptor()->FindFieldByName(steps[i]);
    if (i + 1 == steps.size()) return holder;
    holder = holder->GetReflection()->MutableMessage(holder, *field);
  }
}

absl::Status SetField(const JobOverride& override, wire::JobConfig* config) {
  const JobField& target = *override.field;
  const std::string& text = override.value;
  const pb::FieldDescriptor* field = nullptr;
  pb::Message* holder = FindHolder(target.path, config, &field);
  const pb::Reflection* reflection = holder->GetReflection();
  const auto refuse = [&](const char* wanted) {
    const std::string name =
        override.variable.empty() ? absl::StrCat("--", target.flag) : override.variable;
    return absl::InvalidArgumentError(absl::StrCat(name, "=", text, ": ", wanted, " is needed"));
  };
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      reflection->SetString(holder, field, text);
      return absl::OkStatus();
    case pb::FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      if (!absl::SimpleAtoi(text, &value)) return refuse("a whole number from 0 to 4294967295");
      reflection->SetUInt32(holder, field, value);
      return absl::OkStatus();
    }
    case pb::FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      if (!absl::SimpleAtoi(text, &value)) return refuse("a whole number, 0 or more,");
      reflection->SetUInt64(holder, field, value);
      return absl::OkStatus();
    }
    case pb::FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return refuse("a number");
      reflection->SetDouble(holder, field, value);
      return absl::OkStatus();
    }
    case pb::FieldDescriptor::CPPTYPE_BOOL: {
      bool value = false;
      if (!absl::SimpleAtob(text, &value)) return refuse("true or false");
      reflection->SetBool(holder, field, value);
      return absl::OkStatus();
    }
    default:
      return absl::InternalError(absl::StrCat("no flag can set ", target.path));
  }
}

}  // namespace

absl::Span<const JobField> JobFields() { return kFields; }

bool IsSwitch(const JobField& field) {
  wire::JobConfig config;
  const pb::FieldDescriptor* descriptor = nullptr;
  FindHolder(field.path, &config, &descriptor);
  return descriptor->cpp_type() == pb::FieldDescriptor::CPPTYPE_BOOL;
}

absl::Status ApplyOverrides(absl::Span<const JobOverride> overrides, wire::JobConfig* config) {
  for (const JobOverride& override : overrides) {
    SOAP_RETURN_IF_ERROR(SetField(override, config));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::apps
