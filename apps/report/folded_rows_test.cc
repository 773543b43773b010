#include "apps/report/folded_rows.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const std::vector<TableRow>& rows) {
  std::vector<std::string> names;
  for (const TableRow& row : FoldRows(rows)) names.push_back(row.name);
  return names;
}

TEST(FoldRows, LayersOfSeveralRowsAreOneStretch) {
  std::vector<TableRow> rows = {{"embed", "a"}};
  for (int i = 0; i < 12; ++i) {
    rows.push_back({absl::StrCat("layers.", i, ".norm1"), "n"});
    rows.push_back({absl::StrCat("layers.", i, ".fc"), "f"});
    rows.push_back({absl::StrCat("layers.", i, ".norm2"), "n"});
  }
  rows.push_back({"loss", "l"});
  EXPECT_THAT(NamesOf(rows), ElementsAre("embed", "layers.0-11.norm1 × 12", "layers.0-11.fc × 12",
                                         "layers.0-11.norm2 × 12", "loss"));
}

TEST(FoldRows, WhatDiffersInAnyColumnIsKept) {
  EXPECT_THAT(NamesOf({{"fc1", "10"}, {"fc2", "11"}, {"fc3", "11"}, {"fc4", "11"}}),
              ElementsAre("fc1", "fc2-4 × 3"));
  EXPECT_THAT(NamesOf({{"a", "x"}, {"b", "x"}}), ElementsAre("a", "b"));
}

TEST(FoldRows, NamesThatDoNotCountGoByTheFirst) {
  EXPECT_THAT(NamesOf({{"c1", "x"}, {"c3", "x"}}), ElementsAre("c1 × 2"));
  EXPECT_THAT(NamesOf({{"a1.b1", "x"}, {"a2.b2", "x"}}), ElementsAre("a1.b1 × 2"));
  EXPECT_THAT(NamesOf({{"same", "x"}, {"same", "x"}}), ElementsAre("same × 2"));
  EXPECT_THAT(NamesOf({{"c99999999999999999999999", "x"}, {"c1", "x"}}),
              ElementsAre("c99999999999999999999999 × 2"));
  EXPECT_TRUE(FoldRows({}).empty());
}

TEST(FoldRows, AStretchThatDoesNotEndWithTheTableLeavesItsRest) {
  EXPECT_THAT(NamesOf({{"a0", "1"}, {"b0", "2"}, {"a1", "1"}, {"b1", "2"}, {"a2", "1"}}),
              ElementsAre("a0-1 × 2", "b0-1 × 2", "a2"));
}

TEST(TextOfRows, ColumnsAreCountedInCharacters) {
  EXPECT_EQ(TextOfRows(FoldRows({{"a", "1"}, {"b1", "2"}, {"b2", "2"}}), 9),
            "a         1\nb1-2 × 2  2\n");
}

}  // namespace
}  // namespace soapstone::apps
