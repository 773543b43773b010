// Tables of a checkpoint as a model's file has them, keys ascending. A part of the command's shell.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/image.h"

namespace soapstone::apps {

// All keys of a table, ascending: 8 bytes a row are at hand. Error: DataLoss where one is there
// twice, or the image's.
absl::StatusOr<std::vector<uint64_t>> SortedKeys(const checkpoint::Image::Table& table,
                                                 checkpoint::Image* image);

// The values of its rows in that order, [keys, dim] f32, some rows at a time, to `append`. Parts
// are in no order of keys: they are read once for each `window_bytes` of values, which are at hand.
// keys: SortedKeys, or some of them. Error: the image's, or that of `append`.
absl::Status ExportRows(
    const checkpoint::Image::Table& table, absl::Span<const uint64_t> keys, uint64_t window_bytes,
    checkpoint::Image* image,
    const std::function<absl::Status(const void* data, uint64_t bytes)>& append);

}  // namespace soapstone::apps
