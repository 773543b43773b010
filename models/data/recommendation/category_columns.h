// Numbers and categories as columns, for models that read categories by embeddings of a fixed
// number of rows. Called by LoadData.
#pragma once

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace soapstone::models {

// What LoadSparseData reads of formats criteo and clicks, with these fields:
//   dense [options.dense_columns] f32; category.0 [1] i32, category.1, ..; labels [] i32
// A categorical column whose categories in the training part (of clicks: all that may be drawn) are
// fewer than options.rows_max is numbered: they are 1, 2, .. in the order of their keys, and what
// occurs in the held-out part alone is 0. In a larger column a category's number is a hash of its
// column and key, below rows_max (Weinberger et al. 2009, "Feature hashing for large scale
// multitask learning"). Errors: those of LoadSparseData; InvalidArgument where there are no
// categorical columns (the model takes none), and for a cell with several categories.
absl::StatusOr<TrainTest> LoadCategories(const DataOptions& options);

}  // namespace soapstone::models
