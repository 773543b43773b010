#include "apps/checkpoint_command/table_export.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/memory/row_block.h"
#include "base/status_macros.h"

namespace soapstone::apps {

absl::StatusOr<std::vector<uint64_t>> SortedKeys(const checkpoint::Image::Table& table,
                                                 checkpoint::Image* image) {
  std::vector<uint64_t> keys;
  keys.reserve(table.rows);
  SOAP_RETURN_IF_ERROR(image->ReadKeys(table.name, [&](absl::Span<const uint64_t> some) {
    keys.insert(keys.end(), some.begin(), some.end());
  }));
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return keys;
  return absl::DataLossError(
      absl::StrCat("table ", table.name, ": key ", *twice, " is there twice"));
}

absl::Status ExportRows(
    const checkpoint::Image::Table& table, absl::Span<const uint64_t> keys, uint64_t window_bytes,
    checkpoint::Image* image,
    const std::function<absl::Status(const void* data, uint64_t bytes)>& append) {
  const size_t dim = table.form.dim;
  const auto at_once = std::max<size_t>(1, window_bytes / (dim * sizeof(float)));
  std::vector<float> values;
  for (size_t begin = 0; begin < keys.size(); begin += at_once) {
    const absl::Span<const uint64_t> window = keys.subspan(begin, at_once);
    values.resize(window.size() * dim);
    const auto wanted = [&](uint64_t key) { return key >= window.front() && key <= window.back(); };
    SOAP_RETURN_IF_ERROR(image->ReadRows(
        table.name, wanted, /*state=*/false, [&](size_t /*part*/, const RowBlock& rows) {
          for (size_t i = 0; i < rows.keys.size(); ++i) {
            const auto at = std::lower_bound(window.begin(), window.end(), rows.keys[i]);
            if (*at != rows.keys[i]) continue;  // of another key between them
            std::copy_n(rows.values.begin() + static_cast<ptrdiff_t>(i * dim), dim,
                        values.begin() + (at - window.begin()) * static_cast<ptrdiff_t>(dim));
          }
          return absl::OkStatus();
        }));
    SOAP_RETURN_IF_ERROR(append(values.data(), values.size() * sizeof(float)));
  }
  return absl::OkStatus();
}

}  // namespace soapstone::apps
