#include "apps/checkpoint_command/checkpoint_command.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/checkpoint_command/checkpoint_diff.h"
#include "apps/checkpoint_command/checkpoint_place.h"
#include "apps/checkpoint_command/checkpoint_prune.h"
#include "apps/checkpoint_command/table_export.h"
#include "apps/cli/job_source.h"
#include "base/counted.h"
#include "base/exit_codes.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "checkpoint/best.h"
#include "checkpoint/disk.h"
#include "checkpoint/folder.h"
#include "checkpoint/image.h"
#include "cluster/job_config.h"
#include "cluster/model/model_metadata.h"
#include "models/formats/safetensors_writer.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr char kCheckpointProgram[] = "soapstone checkpoint";
constexpr uint64_t kStretchElements = uint64_t{1} << 22;   // that export has at hand
constexpr uint64_t kRowWindowBytes = uint64_t{512} << 20;  // likewise, of a table's rows

uint64_t BytesOf(const wire::Checkpoint& manifest) {
  uint64_t bytes = 0;
  for (const wire::CheckpointPart& part : manifest.part()) bytes += part.bytes();
  return bytes;
}

class CheckpointTeller {
 public:
  explicit CheckpointTeller(const CheckpointFlags& flags)
      : flags_(flags), place_(CheckpointPlaceOf(flags.where)) {}

  absl::Status Run() {
    SOAP_RETURN_IF_ERROR(CheckOther());
    std::error_code error;
    if (!fs::exists(place_.folder, error)) {
      return absl::NotFoundError(absl::StrCat(place_.folder, ": No such file or directory"));
    }
    if (place_.best) {
      SOAP_ASSIGN_OR_RETURN(const wire::Checkpoint best, One());
      place_.clock = best.clock();
    }
    SOAP_ASSIGN_OR_RETURN(clocks_, checkpoint::ClocksIn(disk_.get(), place_.folder));
    if (flags_.action == "ls") return List();
    if (flags_.action == "verify") return Verify();
    if (flags_.action == "prune") return Prune();
    SOAP_ASSIGN_OR_RETURN(const wire::Checkpoint manifest, One());
    if (flags_.action == "diff") return Diff(manifest);
    return flags_.action == "show" ? Show(manifest) : Export(manifest);
  }

 private:
  absl::Status CheckOther() const {
    const bool takes = flags_.action == "export" || flags_.action == "diff";
    if (flags_.other.empty() != takes) return absl::OkStatus();
    if (!takes) return absl::InvalidArgumentError("OTHER is of export and diff: leave it out");
    return absl::InvalidArgumentError(flags_.action == "export"
                                          ? "export needs OTHER, the file that it writes"
                                          : "diff needs OTHER, the checkpoint to compare with");
  }

  void Say(const OrderedJson& json, const std::string& text) const {
    constexpr auto kReplace = OrderedJson::error_handler_t::replace;
    std::cout << (flags_.json ? json.dump(2, ' ', false, kReplace) + "\n" : text);
  }
  absl::StatusOr<wire::Checkpoint> One() const { return ManifestAt(disk_.get(), place_); }

  // Empty: there is none, or it is as it should be.
  std::string FaultOfBest() const {
    const absl::Status best = checkpoint::ReadBestManifest(disk_.get(), place_.folder).status();
    return best.ok() || absl::IsNotFound(best) ? "" : std::string(best.message());
  }
  static OrderedJson JsonOf(const wire::BestCheckpoint& best) {
    return {{"by", best.by_loss() ? "loss" : "accuracy"},
            {"accuracy", best.accuracy()},
            {"loss", best.loss()},
            {"held_out_samples", best.samples()}};
  }

  absl::Status List() const {
    if (place_.clock.has_value()) {
      return absl::InvalidArgumentError("ls is of a folder; show says what is in a checkpoint");
    }
    OrderedJson json = {{"folder", place_.folder}, {"checkpoints", OrderedJson::array()}};
    std::string text;
    const auto said = checkpoint::ReadBest(disk_.get(), place_.folder);
    const auto named = checkpoint::ReadBestManifest(disk_.get(), place_.folder);
    const int64_t best = said.ok() && named.ok() ? named->clock() : 0;
    for (const int64_t clock : clocks_) {
      const auto manifest = checkpoint::ReadManifest(disk_.get(), place_.folder, clock);
      if (!manifest.ok()) {
        json["checkpoints"].push_back({{"clock", clock}, {"error", manifest.status().message()}});
        absl::StrAppend(&text, clock, "  ", manifest.status().message(), "\n");
        continue;
      }
      json["checkpoints"].push_back({{"clock", clock},
                                     {"bytes", BytesOf(*manifest)},
                                     {"parts", manifest->part_size()},
                                     {"samples", manifest->samples()},
                                     {"seconds", manifest->seconds()},
                                     {"strategy", !manifest->strategy().empty()}});
      if (clock == best) json["checkpoints"].back()["best"] = JsonOf(**said);
      absl::StrAppendFormat(
          &text, "%d  %s, %s, %d samples, %.1f s%s%s\n", clock, Counted(BytesOf(*manifest), "byte"),
          Counted(manifest->part_size(), "part"), manifest->samples(), manifest->seconds(),
          manifest->strategy().empty() ? "" : ", with a strategy",
          clock == best ? absl::StrCat(", the best: ", checkpoint::FigureOf(**said)) : "");
    }
    if (const std::string fault = FaultOfBest(); !fault.empty()) {
      json["best_error"] = fault;
      absl::StrAppend(&text, "best  ", fault, "\n");
    }
    if (clocks_.empty()) text = absl::StrCat("no checkpoint in ", place_.folder, "\n");
    Say(json, text);
    return absl::OkStatus();
  }

  absl::Status Verify() const {
    std::vector<int64_t> clocks = clocks_;
    if (place_.clock.has_value()) clocks = {*place_.clock};
    if (clocks.empty()) return One().status();
    OrderedJson json = {{"folder", place_.folder}, {"checkpoints", OrderedJson::array()}};
    std::string text;
    size_t damaged = 0;
    for (const int64_t clock : clocks) {
      const auto manifest = checkpoint::ReadManifest(disk_.get(), place_.folder, clock);
      std::vector<std::string> faults;
      if (manifest.ok()) faults = checkpoint::FaultsOf(disk_.get(), place_.folder, *manifest);
      if (!manifest.ok()) faults.emplace_back(manifest.status().message());
      json["checkpoints"].push_back({{"clock", clock}, {"faults", faults}});
      damaged += faults.empty() ? 0 : 1;
      for (const std::string& fault : faults) {
        absl::StrAppend(&text, "checkpoint ", clock, ": ", fault, "\n");
      }
      if (faults.empty()) {
        absl::StrAppend(&text, "checkpoint ", clock, ": whole, ",
                        Counted(BytesOf(*manifest), "byte"), " in ",
                        Counted(manifest->part_size(), "part"), "\n");
      }
    }
    const std::string fault = place_.clock.has_value() ? "" : FaultOfBest();
    if (!fault.empty()) {
      json["best_error"] = fault;
      absl::StrAppend(&text, "best: ", fault, "\n");
    }
    Say(json, text);
    if (damaged == 0 && !fault.empty()) return absl::DataLossError(fault);
    if (damaged == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(damaged, " of ", Counted(clocks.size(), "checkpoint"),
                                            " ", damaged == 1 ? "is" : "are", " not whole"));
  }

  absl::Status Show(const wire::Checkpoint& manifest) const {
    SOAP_ASSIGN_OR_RETURN(const checkpoint::Image image,
                          checkpoint::Image::Open(disk_.get(), place_.folder, manifest));
    OrderedJson json = {{"clock", manifest.clock()},
                        {"meaning", manifest.meaning()},
                        {"session", absl::StrCat(absl::Hex(manifest.session(), absl::kZeroPad16))},
                        {"parent", manifest.parent()},
                        {"samples", manifest.samples()},
                        {"seconds", manifest.seconds()},
                        {"job", manifest.job()},
                        {"strategy", manifest.strategy()},
                        {"parts", OrderedJson::array()},
                        {"tensors", OrderedJson::array()},
                        {"tables", OrderedJson::array()}};
    std::string text = absl::StrFormat(
        "checkpoint %d, of a run from clock %d on: %d samples, %.1f s\njob: %s\n%s",
        manifest.clock(), manifest.parent(), manifest.samples(), manifest.seconds(), manifest.job(),
        manifest.strategy().empty() ? "" : absl::StrCat("strategy: ", manifest.strategy(), "\n"));
    for (const wire::CheckpointPart& part : manifest.part()) {
      json["parts"].push_back({{"file", part.file()}, {"bytes", part.bytes()}});
      absl::StrAppend(&text, part.file(), ": ", Counted(part.bytes(), "byte"), "\n");
    }
    for (const checkpoint::Image::Param& param : image.Params()) {
      json["tensors"].push_back({{"name", param.name},
                                 {"shape", param.shape},
                                 {"slices", param.slices},
                                 {"steps", param.steps},
                                 {"moments", param.moments}});
      absl::StrAppend(&text, PlainText(param.name), " [", absl::StrJoin(param.shape, ","),
                      "]: ", Counted(param.slices, "slice"), " of ", Counted(param.steps, "step"),
                      ", ", Counted(param.moments, "moment"), "\n");
    }
    SOAP_ASSIGN_OR_RETURN(const std::vector<checkpoint::Image::Table> tables, image.Tables());
    for (const checkpoint::Image::Table& table : tables) {
      const size_t moments = size_t{table.form.first} + size_t{table.form.second};
      json["tables"].push_back({{"name", table.name},
                                {"rows", table.rows},
                                {"dim", table.form.dim},
                                {"steps", table.form.steps},
                                {"moments", moments}});
      absl::StrAppend(&text, PlainText(table.name), ": ", Counted(table.rows, "row"), " of ",
                      table.form.dim, ", ", Counted(moments, "moment"), "\n");
    }
    Say(json, text);
    return absl::OkStatus();
  }

  absl::Status Diff(const wire::Checkpoint& manifest) const {
    const CheckpointPlace other = CheckpointPlaceOf(flags_.other);
    SOAP_ASSIGN_OR_RETURN(const wire::Checkpoint second, ManifestAt(disk_.get(), other));
    SOAP_ASSIGN_OR_RETURN(checkpoint::Image a,
                          checkpoint::Image::Open(disk_.get(), place_.folder, manifest));
    SOAP_ASSIGN_OR_RETURN(checkpoint::Image b,
                          checkpoint::Image::Open(disk_.get(), other.folder, second));
    SOAP_RETURN_IF_ERROR(a.CheckAllThere());
    SOAP_RETURN_IF_ERROR(b.CheckAllThere());
    SOAP_ASSIGN_OR_RETURN(const std::vector<TensorChange> tensors, TensorChanges(&a, &b));
    SOAP_ASSIGN_OR_RETURN(const std::vector<TableChange> tables, TableChanges(&a, &b));
    const DiffText said =
        TextOf({.clock = manifest.clock(), .meaning = manifest.meaning()},
               {.clock = second.clock(), .meaning = second.meaning()}, tensors, tables);
    Say(said.json, said.text);
    return absl::OkStatus();
  }

  absl::Status Prune() {
    if (place_.clock.has_value()) {
      return absl::InvalidArgumentError("prune is of a folder, of which it leaves --keep");
    }
    SOAP_ASSIGN_OR_RETURN(const PrunedCheckpoints pruned,
                          PruneCheckpoints(disk_.get(), place_.folder, flags_.keep));
    std::string text =
        absl::StrCat("kept ", absl::StrJoin(pruned.kept, ", "),
                     pruned.best == 0 ? "" : absl::StrCat(", and the best, ", pruned.best), "; ",
                     pruned.removed.empty() ? "nothing to remove" : "removed ",
                     absl::StrJoin(pruned.removed, ", "), "\n");
    for (const int64_t clock : pruned.of_another) {
      absl::StrAppend(&text, "removed, though of another format: checkpoint ", clock, "\n");
    }
    for (const std::string& line : pruned.left)
      absl::StrAppend(&text, "left, though not whole: ", line, "\n");
    OrderedJson json = {{"folder", place_.folder},
                        {"kept", pruned.kept},
                        {"removed", pruned.removed},
                        {"of_another_format", pruned.of_another},
                        {"left", pruned.left}};
    if (pruned.best != 0) json["best"] = pruned.best;
    Say(json, text);
    return absl::OkStatus();
  }

  absl::Status Export(const wire::Checkpoint& manifest) const {
    SOAP_RETURN_IF_ERROR(models::CheckWritable(flags_.other));
    SOAP_RETURN_IF_ERROR(CheckApartFrom(place_.folder, flags_.other));
    SOAP_ASSIGN_OR_RETURN(checkpoint::Image image,
                          checkpoint::Image::Open(disk_.get(), place_.folder, manifest));
    SOAP_RETURN_IF_ERROR(image.CheckAllThere());
    const std::vector<checkpoint::Image::Param> params = image.Params();
    SOAP_ASSIGN_OR_RETURN(const std::vector<checkpoint::Image::Table> tables, image.Tables());
    std::vector<models::TensorOutline> outlines;  // in the order of a job's own file
    for (const auto& table : tables) {
      outlines.push_back({.name = table.name + ".keys",
                          .shape = {static_cast<int64_t>(table.rows)},
                          .keys = table.rows > 0});
    }
    for (const auto& param : params) outlines.push_back({.name = param.name, .shape = param.shape});
    for (const auto& table : tables) {
      outlines.push_back({.name = table.name + ".rows",
                          .shape = {static_cast<int64_t>(table.rows), table.form.dim}});
    }
    SOAP_ASSIGN_OR_RETURN(
        const std::unique_ptr<models::SafetensorsWriter> file,
        models::SafetensorsWriter::Create(flags_.other, std::move(outlines), MetadataOf(manifest)));
    for (const auto& table : tables) {
      SOAP_ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, SortedKeys(table, &image));
      SOAP_RETURN_IF_ERROR(file->Append(keys.data(), keys.size() * sizeof(uint64_t)));
    }
    SOAP_RETURN_IF_ERROR(ExportTensors(params, &image, file.get()));
    for (const auto& table : tables) {
      SOAP_ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, SortedKeys(table, &image));
      SOAP_RETURN_IF_ERROR(
          ExportRows(table, keys, kRowWindowBytes, &image,
                     [&](const void* data, uint64_t bytes) { return file->Append(data, bytes); }));
    }
    SOAP_RETURN_IF_ERROR(file->Finish(MetadataOf(manifest)));
    const std::string there =
        tables.empty() ? "" : absl::StrCat(" and ", Counted(tables.size(), "table"));
    const std::string what =
        absl::StrCat("checkpoint ", manifest.clock(), ": ", Counted(params.size(), "tensor"), there,
                     " in ", flags_.other);
    Say({{"clock", manifest.clock()},
         {"tensors", params.size()},
         {"tables", tables.size()},
         {"file", flags_.other}},
        what + "\n");
    return absl::OkStatus();
  }
  static absl::Status ExportTensors(const std::vector<checkpoint::Image::Param>& params,
                                    checkpoint::Image* image, models::SafetensorsWriter* file) {
    std::vector<float> values;
    for (const auto& param : params) {
      const checkpoint::Box whole = checkpoint::WholeBox(param.shape);
      for (uint64_t at = 0; at < whole.elements(); at += values.size()) {
        values.resize(std::min(kStretchElements, whole.elements() - at));
        SOAP_RETURN_IF_ERROR(
            image->Fill(param.name, whole, at, {.values = absl::MakeSpan(values)}));
        SOAP_RETURN_IF_ERROR(file->Append(values.data(), values.size() * sizeof(float)));
      }
    }
    return absl::OkStatus();
  }
  static models::Metadata MetadataOf(const wire::Checkpoint& manifest) {
    models::Metadata metadata = {{"format", "pt"}, {"clock", absl::StrCat(manifest.clock())}};
    const auto job = ParseJobText(manifest.job(), "job");
    if (!job.ok()) return metadata;
    metadata.emplace_back("model", job->model());
    metadata.emplace_back("job", JobText(JobOfModel(*job)));
    return metadata;
  }

  const CheckpointFlags& flags_;
  CheckpointPlace place_;
  const std::unique_ptr<checkpoint::Disk> disk_ = checkpoint::RealDisk();
  std::vector<int64_t> clocks_;
};

}  // namespace

int TellOfCheckpoints(const CheckpointFlags& flags) {
  const absl::Status told = CheckpointTeller(flags).Run();
  if (told.ok()) return kExitOk;
  // Whatever the disk says, it is of what the user names.
  return SayConfigError(kCheckpointProgram, absl::InvalidArgumentError(told.message()));
}

}  // namespace soapstone::apps
