#include "checkpoint/table_part.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace soapstone::checkpoint {
namespace {

constexpr uint64_t kBlockRowBytes = uint64_t{4} << 20;
// So that products of them are numbers too.
constexpr uint64_t kRowsMost = uint64_t{1} << 40;
constexpr uint64_t kDimMost = uint64_t{1} << 20;
constexpr size_t kWordBytes = 8;
constexpr char kTable[] = ".table";
constexpr char kHand[] = ".hand";
constexpr float kPad = 0;

// What a form has of each row, in the order of the file: eight-byte words first.
struct Column {
  const char* suffix;
  bool words;  // U64 [n], else F32 [n, dim]
  bool RowForm::*present;
  std::vector<uint64_t> RowBlock::*of_words;
  std::vector<float> RowBlock::*of_floats;
  uint64_t StoredRows::*at;
};
constexpr Column kColumns[] = {
    {".keys", true, nullptr, &RowBlock::keys, nullptr, &StoredRows::keys_at},
    {".steps", true, &RowForm::steps, &RowBlock::steps, nullptr, &StoredRows::steps_at},
    {".used", true, &RowForm::used, &RowBlock::used, nullptr, &StoredRows::used_at},
    {".rows", false, nullptr, nullptr, &RowBlock::values, &StoredRows::values_at},
    {".first", false, &RowForm::first, nullptr, &RowBlock::first, &StoredRows::first_at},
    {".second", false, &RowForm::second, nullptr, &RowBlock::second, &StoredRows::second_at},
};

bool Has(const RowForm& form, const Column& column) {
  return column.present == nullptr || form.*column.present;
}

// An even number, so that floats of whole blocks are whole words.
uint64_t RowsOfBlock(const RowForm& form) {
  return std::max<uint64_t>(2, kBlockRowBytes / form.bytes() / 2 * 2);
}

bool NeedsPad(const RowForm& form, uint64_t rows) {
  return rows * form.floats() * sizeof(float) % kWordBytes != 0;
}

[[noreturn]] void Refuse(const std::string& why, const nlohmann::json& where) {
  throw nlohmann::json::out_of_range::create(401, why, &where);
}

// "[5000,16]" or "[0,4096)": two numbers between `open` and `close`.
bool ParsePair(absl::string_view text, char open, char close, uint64_t* a, uint64_t* b) {
  if (text.size() < 2 || text.front() != open || text.back() != close) return false;
  const std::vector<absl::string_view> two = absl::StrSplit(text.substr(1, text.size() - 2), ',');
  return two.size() == 2 && absl::SimpleAtoi(two[0], a) && absl::SimpleAtoi(two[1], b);
}

}  // namespace

void AddTensors(const PartTable& table, std::vector<PartTensor>* tensors) {
  const uint64_t dim = table.form.dim;
  for (uint64_t begin = 0; begin < table.rows; begin += RowsOfBlock(table.form)) {
    const uint64_t rows = std::min(RowsOfBlock(table.form), table.rows - begin);
    const std::string name = absl::StrCat(table.name, "[", begin, ",", begin + rows, ")");
    for (const Column& column : kColumns) {
      if (!Has(table.form, column)) continue;
      if (column.words) {
        tensors->push_back({name + column.suffix, "U64", {rows}, rows * sizeof(uint64_t)});
      } else {
        tensors->push_back({name + column.suffix, "F32", {rows, dim}, rows * dim * sizeof(float)});
      }
    }
    if (NeedsPad(table.form, rows)) tensors->push_back({name + ".pad", "F32", {1}, sizeof(kPad)});
  }
}

void AddMetadata(const PartTable& table, nlohmann::ordered_json* metadata) {
  (*metadata)[table.name + kTable] = absl::StrCat("[", table.rows, ",", table.form.dim, "]");
  if (table.hand.has_value()) (*metadata)[table.name + kHand] = absl::StrCat(*table.hand);
}

absl::Status AppendRows(const PartTable& table,
                        const std::function<absl::Status(const void*, size_t)>& append) {
  RowBlock block;
  for (uint64_t begin = 0; begin < table.rows; begin += RowsOfBlock(table.form)) {
    const uint64_t rows = std::min(RowsOfBlock(table.form), table.rows - begin);
    SOAP_RETURN_IF_ERROR(table.next(rows, &block));
    for (const Column& column : kColumns) {
      if (!Has(table.form, column)) continue;
      if (column.words) {
        const std::vector<uint64_t>& values = block.*column.of_words;
        SOAP_RETURN_IF_ERROR(append(values.data(), values.size() * sizeof(uint64_t)));
      } else {
        const std::vector<float>& values = block.*column.of_floats;
        SOAP_RETURN_IF_ERROR(append(values.data(), values.size() * sizeof(float)));
      }
    }
    if (NeedsPad(table.form, rows)) SOAP_RETURN_IF_ERROR(append(&kPad, sizeof(kPad)));
  }
  return absl::OkStatus();
}

TablesInHeader::TablesInHeader(const nlohmann::json& metadata, uint64_t data_at, uint64_t end)
    : data_at_(data_at), end_(end) {
  for (const auto& [key, value] : metadata.items()) {
    if (!absl::EndsWith(key, kTable)) continue;
    StoredTable table = {.name = std::string(absl::StripSuffix(key, kTable)),
                         .form = {},
                         .rows = 0,
                         .hand = {},
                         .blocks = {}};
    uint64_t dim = 0;
    if (!ParsePair(value.get<std::string>(), '[', ']', &table.rows, &dim) ||
        table.rows > kRowsMost || dim == 0 || dim > kDimMost) {
      Refuse("no table: " + key, value);
    }
    table.form.dim = static_cast<uint32_t>(dim);
    if (const auto hand = metadata.find(table.name + kHand); hand != metadata.end()) {
      if (!absl::SimpleAtoi(hand->get<std::string>(), &table.hand.emplace()) ||
          *table.hand > table.rows) {
        Refuse("no row: " + table.name + kHand, *hand);
      }
    }
    tables_[table.name] = std::move(table);
  }
}

bool TablesInHeader::Add(const std::string& tensor, const nlohmann::json& entry) {
  const size_t open = tensor.rfind('[');
  const size_t close = tensor.rfind(')');
  if (open == tensor.npos || close == tensor.npos || close < open) return false;
  const auto table = tables_.find(tensor.substr(0, open));
  if (table == tables_.end()) return false;
  const std::string suffix = tensor.substr(close + 1);
  if (suffix == ".pad") return true;
  StoredRows rows;
  const auto* column =
      std::find_if(std::begin(kColumns), std::end(kColumns),
                   [&](const Column& candidate) { return suffix == candidate.suffix; });
  if (column == std::end(kColumns) ||
      !ParsePair(tensor.substr(open, close + 1 - open), '[', ')', &rows.begin, &rows.end) ||
      rows.begin >= rows.end || rows.end > table->second.rows) {
    Refuse("no rows: " + tensor, entry);
  }
  const auto begin = WholeFrom<uint64_t>(entry.at("data_offsets").at(0));
  const auto end = WholeFrom<uint64_t>(entry.at("data_offsets").at(1));
  const uint64_t bytes =
      (rows.end - rows.begin) *
      (column->words ? sizeof(uint64_t) : table->second.form.dim * sizeof(float));
  if (entry.at("dtype") != (column->words ? "U64" : "F32") || end < begin || end - begin != bytes ||
      end > end_ - data_at_) {
    Refuse("not all in it: " + tensor, entry);
  }
  StoredRows& stored = blocks_[table->first].try_emplace(rows.begin, rows).first->second;
  if (stored.end != rows.end) Refuse("another end: " + tensor, entry);
  stored.*column->at = data_at_ + begin;
  return true;
}

std::vector<StoredTable> TablesInHeader::Finish() {
  std::vector<StoredTable> all;
  for (auto& [name, table] : tables_) {
    uint64_t next = 0;
    for (const auto& [begin, rows] : blocks_[name]) {
      if (begin != next) break;
      next = rows.end;
      for (const Column& column : kColumns) {
        const bool there = rows.*column.at != 0;
        if (column.present != nullptr && begin == 0) table.form.*column.present = there;
        if (there != Has(table.form, column)) {
          Refuse(absl::StrCat(name, "[", begin, ",", rows.end, ") lacks ", column.suffix), {});
        }
      }
      table.blocks.push_back(rows);
    }
    if (next != table.rows || table.blocks.size() != blocks_[name].size()) {
      Refuse(absl::StrCat(name, " has rows up to ", next, " of ", table.rows), {});
    }
    all.push_back(std::move(table));
  }
  return all;
}

}  // namespace soapstone::checkpoint
