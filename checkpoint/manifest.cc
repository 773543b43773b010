#include "checkpoint/manifest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "wire/config/text_config.h"

namespace soapstone::checkpoint {
namespace {

constexpr char kSumLine[] = "# sha256 ";

std::string SumLineOf(const std::string& lines) {
  Sha256 sum;
  sum.Update(lines.data(), lines.size());
  return absl::StrCat(kSumLine, sum.HexDigest(), "\n");
}

}  // namespace

std::string ManifestText(wire::Checkpoint manifest) {
  manifest.set_format(kFormat);
  // Its lines mean the same in one, which stands in errors and in JSON too.
  manifest.set_job(absl::StrReplaceAll(manifest.job(), {{"\n", " "}}));
  manifest.set_strategy(absl::StrReplaceAll(manifest.strategy(), {{"\n", " "}}));
  return Sealed(wire::TextOf(manifest));
}

std::string Sealed(const std::string& lines) { return lines + SumLineOf(lines); }

absl::Status CheckSealed(const std::string& text, const std::string& name) {
  const size_t last = text.rfind(kSumLine);
  if (last == text.npos || text.substr(last) != SumLineOf(text.substr(0, last))) {
    return absl::DataLossError(absl::StrCat(name, ": is not as it was written"));
  }
  // Of a later format it has fields that are not known here.
  constexpr char kFormatLine[] = "format: ";
  const std::string of_ours = absl::StrCat(kFormatLine, kFormat, "\n");
  if (text.rfind(of_ours, 0) != 0) {
    const std::string line = text.substr(0, text.find('\n'));
    return absl::FailedPreconditionError(absl::StrCat(name, ": is of another format (", line,
                                                      "), and this program knows ", kFormat));
  }
  return absl::OkStatus();
}

absl::StatusOr<wire::Checkpoint> ParseManifest(const std::string& text, const std::string& name) {
  SOAP_RETURN_IF_ERROR(CheckSealed(text, name));
  wire::Checkpoint manifest;
  const absl::Status parsed = wire::ParseTextConfig(text, name, &manifest);
  if (!parsed.ok()) return absl::DataLossError(parsed.message());
  return manifest;
}

PartSums SumsOf(const wire::CheckpointPart& part) {
  return {.bytes = part.bytes(), .blocks = {part.block().begin(), part.block().end()}};
}

void AddPart(const std::string& file, const PartSums& sums, wire::Checkpoint* manifest) {
  wire::CheckpointPart* part = manifest->add_part();
  part->set_file(file);
  part->set_bytes(sums.bytes);
  for (const uint64_t block : sums.blocks) part->add_block(block);
}

}  // namespace soapstone::checkpoint
