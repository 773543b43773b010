#include "checkpoint/part.h"

// Its functions are compiled in: no library goes along.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace soapstone::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kAlignment = 8;
constexpr uint64_t kHeaderBytesMax = 100'000'000;
constexpr uint64_t kSyncEvery = uint64_t{64} << 20;
constexpr uint64_t kBytesMax = uint64_t{1} << 62;  // of a file: sums of offsets are numbers too
constexpr char kFirst[] = ".first";
constexpr char kSecond[] = ".second";
constexpr char kSteps[] = ".steps";
constexpr char kShape[] = ".shape";
constexpr char kMetadata[] = "__metadata__";

// Sums of a file's blocks, as its bytes come.
class BlockSums {
 public:
  BlockSums() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~BlockSums() { XXH3_freeState(state_); }
  BlockSums(const BlockSums&) = delete;
  BlockSums& operator=(const BlockSums&) = delete;

  void Add(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const auto take = std::min<uint64_t>(bytes, kBlockBytes - sums_.bytes % kBlockBytes);
      XXH3_64bits_update(state_, at, take);
      sums_.bytes += take;
      at += take;
      bytes -= take;
      if (sums_.bytes % kBlockBytes == 0) Close();
    }
  }
  PartSums Finish() {
    if (sums_.bytes % kBlockBytes != 0) Close();
    return std::move(sums_);
  }

 private:
  void Close() {
    sums_.blocks.push_back(XXH3_64bits_digest(state_));
    XXH3_64bits_reset(state_);
  }

  XXH3_state_t* state_;
  PartSums sums_;
};

struct Tensor {
  std::string name;
  absl::Span<const float> values;
};

std::string NameOf(const PartSlice& slice) {
  return SliceName(slice.param, {slice.box, slice.begin, slice.begin + slice.values.size()});
}

std::vector<Tensor> TensorsOf(absl::Span<const PartSlice> slices) {
  std::vector<Tensor> tensors;
  for (const PartSlice& slice : slices) {
    const std::string name = NameOf(slice);
    tensors.push_back({name, slice.values});
    if (!slice.first.empty()) tensors.push_back({name + kFirst, slice.first});
    if (!slice.second.empty()) tensors.push_back({name + kSecond, slice.second});
  }
  return tensors;
}

std::string HeaderOf(int64_t clock, absl::Span<const PartSlice> slices,
                     const std::vector<Tensor>& tensors, absl::Span<const PartTable> tables) {
  nlohmann::ordered_json header;
  header[kMetadata]["clock"] = absl::StrCat(clock);
  for (const PartTable& table : tables) AddMetadata(table, &header[kMetadata]);
  for (const PartSlice& slice : slices) {
    header[kMetadata][NameOf(slice) + kSteps] = absl::StrCat(slice.steps);
    header[kMetadata][slice.param + kShape] =
        absl::StrCat("[", absl::StrJoin(slice.box.shape, ","), "]");
  }
  std::vector<PartTensor> all;
  for (const PartTable& table : tables) AddTensors(table, &all);
  for (const Tensor& tensor : tensors) {
    const uint64_t elements = tensor.values.size();
    all.push_back({tensor.name, "F32", {elements}, elements * sizeof(float)});
  }
  uint64_t offset = 0;
  for (const PartTensor& tensor : all) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

bool ParseNumbers(absl::string_view text, char between, std::vector<int64_t>* numbers) {
  for (const absl::string_view number : absl::StrSplit(text, between)) {
    if (!absl::SimpleAtoi(number, &numbers->emplace_back())) return false;
  }
  return true;
}

// "0:64,32:96" as a box, without its shape; false: it is none.
bool ParseRanges(absl::string_view text, Box* box) {
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    std::vector<int64_t> ends;
    if (!ParseNumbers(range, ':', &ends) || ends.size() != 2) return false;
    if (ends[0] < 0 || ends[1] < ends[0]) return false;
    box->begin.push_back(ends[0]);
    box->extent.push_back(ends[1] - ends[0]);
  }
  return true;
}

// "[256,128]" of the metadata; false: there is none.
bool FindShape(const nlohmann::json& metadata, const std::string& param,
               std::vector<int64_t>* shape) {
  const auto at = metadata.find(param + kShape);
  if (at == metadata.end()) return false;
  const auto text = at->get<std::string>();
  if (text == "[]") return true;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  return ParseNumbers(absl::string_view(text).substr(1, text.size() - 2), ',', shape);
}

// "fc1.weight[0:64,32:96][0,4096)" as its parts. A model's name may end like a box: whose shape is
// known is the parameter. False: it is no such name, or of no shape.
bool ParseSliceName(const std::string& name, const nlohmann::json& metadata, StoredSlice* slice) {
  const size_t open = name.rfind('[');
  const size_t comma = name.rfind(',');
  if (open == name.npos || comma == name.npos || comma < open || name.back() != ')') return false;
  slice->param = name.substr(0, open);
  Stretch& of = slice->of;
  if (!absl::SimpleAtoi(name.substr(open + 1, comma - open - 1), &of.begin) ||
      !absl::SimpleAtoi(name.substr(comma + 1, name.size() - comma - 2), &of.end)) {
    return false;
  }
  of.box = {};
  if (FindShape(metadata, slice->param, &of.box.shape)) {
    of.box = WholeBox(std::move(of.box.shape));
  } else {
    const size_t box = slice->param.rfind('[');
    if (box == name.npos || slice->param.back() != ']') return false;
    const std::string ranges = slice->param.substr(box + 1, slice->param.size() - box - 2);
    slice->param.resize(box);
    of.box = {};
    if (!ParseRanges(ranges, &of.box) || !FindShape(metadata, slice->param, &of.box.shape)) {
      return false;
    }
  }
  return IsBox(of.box) && of.begin <= of.end && of.end <= of.box.elements();
}

bool ConsumeEnd(std::string* name, const char* suffix) {
  if (!absl::EndsWith(*name, suffix)) return false;
  name->erase(name->size() - std::strlen(suffix));
  return true;
}

int64_t StepsOf(const nlohmann::json& metadata, const std::string& key) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(metadata.at(key).get<std::string>(), &value)) {
    throw nlohmann::json::out_of_range::create(401, "no number", &metadata);
  }
  return value;
}

// The slices of a header, whose data begin at byte `data_at`; its tensors that are rows go to
// `tables`. Throws where it is none of ours.
std::vector<StoredSlice> SlicesOf(const nlohmann::json& header, uint64_t data_at,
                                  TablesInHeader* tables) {
  std::map<std::string, StoredSlice> slices;
  for (const auto& [key, entry] : header.items()) {
    if (key == kMetadata || tables->Add(key, entry)) continue;
    std::string name = key;
    const bool first = ConsumeEnd(&name, kFirst);
    const bool second = !first && ConsumeEnd(&name, kSecond);
    StoredSlice& slice = slices[name];
    const auto begin = WholeFrom<uint64_t>(entry.at("data_offsets").at(0));
    const auto end = WholeFrom<uint64_t>(entry.at("data_offsets").at(1));
    if (!ParseSliceName(name, header.at(kMetadata), &slice) || end < begin || end > kBytesMax ||
        entry.at("dtype") != "F32" ||
        (end - begin) / sizeof(float) != slice.of.end - slice.of.begin) {
      throw nlohmann::json::out_of_range::create(401, "no slice: " + key, &entry);
    }
    if (first) {
      slice.first_at = data_at + begin;
    } else if (second) {
      slice.second_at = data_at + begin;
    } else {
      slice.values_at = data_at + begin;
    }
  }
  std::vector<StoredSlice> all;
  for (auto& [name, slice] : slices) {
    slice.steps = StepsOf(header.at(kMetadata), name + kSteps);
    if (slice.values_at == 0) {
      throw nlohmann::json::out_of_range::create(401, "no values: " + name, &header);
    }
    all.push_back(std::move(slice));
  }
  return all;
}

}  // namespace

std::string SliceName(const std::string& param, const Stretch& of) {
  return absl::StrCat(param, BoxText(of.box), "[", of.begin, ",", of.end, ")");
}

PartSums SumsOfBytes(const void* data, size_t bytes) {
  BlockSums sums;
  sums.Add(data, bytes);
  return sums.Finish();
}

absl::StatusOr<PartSums> WritePart(Disk* disk, const std::string& path, int64_t clock,
                                   absl::Span<const PartSlice> slices,
                                   absl::Span<const PartTable> tables) {
  const std::vector<Tensor> tensors = TensorsOf(slices);
  const std::string header = HeaderOf(clock, slices, tensors, tables);
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<Disk::File> file, disk->Create(path));
  BlockSums sums;
  uint64_t unsynced = 0;
  const auto append = [&](const void* data, size_t bytes) -> absl::Status {
    SOAP_RETURN_IF_ERROR(file->Append(data, bytes));
    sums.Add(data, bytes);
    // So that the end does not wait for all of it, nor memory fill with it.
    if ((unsynced += bytes) < kSyncEvery) return absl::OkStatus();
    unsynced = 0;
    return file->Sync();
  };
  const uint64_t header_bytes = header.size();
  SOAP_RETURN_IF_ERROR(append(&header_bytes, sizeof(header_bytes)));
  SOAP_RETURN_IF_ERROR(append(header.data(), header.size()));
  for (const PartTable& table : tables) SOAP_RETURN_IF_ERROR(AppendRows(table, append));
  for (const Tensor& tensor : tensors) {
    SOAP_RETURN_IF_ERROR(append(tensor.values.data(), tensor.values.size() * sizeof(float)));
  }
  SOAP_RETURN_IF_ERROR(file->Sync());
  SOAP_RETURN_IF_ERROR(disk->SyncFolder(path.substr(0, path.rfind('/'))));
  return sums.Finish();
}

absl::StatusOr<PartReader> PartReader::Open(Disk* disk, std::string path, PartSums sums) {
  PartReader reader(disk, std::move(path), std::move(sums));
  const absl::StatusOr<uint64_t> bytes = disk->SizeOf(reader.path_);
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  if (*bytes != reader.sums_.bytes ||
      reader.sums_.blocks.size() != (*bytes + kBlockBytes - 1) / kBlockBytes) {
    return absl::DataLossError(absl::StrCat(reader.path_, ": has ", *bytes, " bytes, not ",
                                            reader.sums_.bytes, ", as it was written"));
  }
  SOAP_RETURN_IF_ERROR(reader.ReadHeader());
  return reader;
}

absl::Status PartReader::ReadHeader() {
  uint64_t bytes = 0;
  SOAP_RETURN_IF_ERROR(Read(0, &bytes, sizeof(bytes)));
  if (bytes > kHeaderBytesMax || bytes > sums_.bytes - sizeof(bytes)) {
    return absl::DataLossError(absl::StrCat(path_, ": no safetensors file"));
  }
  header_bytes_ = bytes;
  std::string text(bytes, '\0');
  SOAP_RETURN_IF_ERROR(Read(sizeof(bytes), text.data(), bytes));
  try {
    const nlohmann::json header = nlohmann::json::parse(text);
    const uint64_t data_at = sizeof(bytes) + bytes;
    const auto metadata = header.find(kMetadata);
    TablesInHeader tables(metadata != header.end() ? *metadata : nlohmann::json::object(), data_at,
                          sums_.bytes);
    slices_ = SlicesOf(header, data_at, &tables);
    tables_ = tables.Finish();
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(path_, ": no part of a checkpoint: ", error.what()));
  }
  for (const StoredSlice& slice : slices_) {
    const uint64_t room = (slice.of.end - slice.of.begin) * sizeof(float);
    for (const uint64_t at :
         {slice.values_at, slice.first_at.value_or(0), slice.second_at.value_or(0)}) {
      if (at <= sums_.bytes && room <= sums_.bytes - at) continue;
      return absl::DataLossError(absl::StrCat(path_, ": ", slice.param, " is not all in it"));
    }
  }
  return absl::OkStatus();
}

absl::Status PartReader::LoadBlock(uint64_t block) {
  if (block_ == block) return absl::OkStatus();
  block_.reset();
  const uint64_t begin = block * kBlockBytes;
  buffer_.resize(std::min(kBlockBytes, sums_.bytes - begin));
  const absl::Status read = disk_->Read(path_, begin, buffer_.data(), buffer_.size());
  if (!read.ok()) return absl::DataLossError(read.message());
  if (XXH3_64bits(buffer_.data(), buffer_.size()) != sums_.blocks[block]) {
    return absl::DataLossError(absl::StrCat(path_, ": MiB ", block, TensorAt(begin), ": checksum"));
  }
  block_ = block;
  return absl::OkStatus();
}

// ", in fc1.weight[0,4096).first" of who has bytes from `offset` on within a block.
std::string PartReader::TensorAt(uint64_t offset) const {
  if (offset < sizeof(uint64_t) + header_bytes_ || (slices_.empty() && tables_.empty())) {
    return ", the header in it";
  }
  std::string last;
  uint64_t nearest = 0;
  for (const StoredTable& table : tables_) {
    for (const StoredRows& rows : table.blocks) {
      if (rows.keys_at > offset || rows.keys_at < nearest) continue;
      nearest = rows.keys_at;
      last = absl::StrCat(table.name, "[", rows.begin, ",", rows.end, ")");
    }
  }
  for (const StoredSlice& slice : slices_) {
    const std::string name = SliceName(slice.param, slice.of);
    for (const auto& [at, suffix] : {std::pair(std::optional(slice.values_at), ""),
                                     {slice.first_at, kFirst},
                                     {slice.second_at, kSecond}}) {
      if (!at.has_value() || *at > offset || *at < nearest) continue;
      nearest = *at;
      last = name + suffix;
    }
  }
  return last.empty() ? "" : absl::StrCat(", from ", last, " on");
}

absl::Status PartReader::Read(uint64_t offset, void* data, uint64_t bytes) {
  if (offset > sums_.bytes || bytes > sums_.bytes - offset) {
    return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", sums_.bytes));
  }
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    SOAP_RETURN_IF_ERROR(LoadBlock(offset / kBlockBytes));
    const uint64_t within = offset % kBlockBytes;
    const uint64_t take = std::min<uint64_t>(bytes, buffer_.size() - within);
    std::memcpy(to, buffer_.data() + within, take);
    to += take;
    offset += take;
    bytes -= take;
  }
  return absl::OkStatus();
}

std::vector<std::string> PartReader::Faults() {
  std::vector<std::string> faults;
  for (uint64_t block = 0; block < sums_.blocks.size(); ++block) {
    const absl::Status loaded = LoadBlock(block);
    if (!loaded.ok()) faults.emplace_back(loaded.message());
  }
  return faults;
}

}  // namespace soapstone::checkpoint
