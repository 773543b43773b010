#include "models/data/recommendation/category_columns.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"

namespace soapstone::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CategoryColumns : public DataFiles {
 protected:
  DataOptions Options(const std::string& train, const std::string& test, uint64_t rows_max = 100) {
    return {.format = "criteo",
            .path = Write("train", train),
            .test_path = Write("test", test),
            .dense_columns = 1,
            .categorical_columns = 2,
            .rows_max = rows_max};
  }
};

TEST_F(CategoryColumns, AreNumberedByTheTrainingPart) {
  const TrainTest data =
      *LoadData(Options("1\t3\tff\t\n0\t\t1a\t7\n1\t0\tff\t9\n", "0\t1\tee\t9\n1\t1\t1a\t\n"));
  EXPECT_EQ(data.train.classes, 2);
  ASSERT_EQ(data.train.columns.size(), 4u);
  EXPECT_EQ(data.train.columns[1]->spec(),
            (FieldSpec{.name = "category.0", .is_float = false, .shape = {1}}));
  EXPECT_THAT(FloatsOf(data.train), ElementsAre(std::log1p(3.0f), 0, 0));
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(2, 1, 2));
  EXPECT_THAT(IntsOf(data.train, 2), ElementsAre(1, 2, 3));  // a missing one is a category
  EXPECT_THAT(IntsOf(data.train, 3), ElementsAre(1, 0, 1));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(0, 1));  // ee is new
  EXPECT_THAT(IntsOf(data.test, 2), ElementsAre(3, 1));
  EXPECT_EQ(data.train.columns[1]->limit(), 3);
  EXPECT_EQ(data.test.columns[1]->limit(), 3);
  EXPECT_EQ(data.train.columns[2]->limit(), 4);
}

// Of two columns, the first with fewer categories than rows, the second with more.
TEST_F(CategoryColumns, AreHashedWhereThereAreMoreThanRows) {
  std::string lines;
  for (int i = 0; i < 2000; ++i)
    lines += "1\t0\t" + std::to_string(i % 50) + "\t" + std::to_string(i) + "\n";
  const TrainTest data = *LoadData(Options(lines, "0\t0\t7\t123456\n1\t0\t7\t17\n", 64));
  EXPECT_EQ(data.train.columns[1]->limit(), 51);
  EXPECT_EQ(data.train.columns[2]->limit(), 64);
  const std::vector<int32_t> hashed = IntsOf(data.train, 2);
  std::vector<int> counts(64);
  for (const int32_t number : hashed) {
    ASSERT_TRUE(number >= 0 && number < 64);
    ++counts[static_cast<size_t>(number)];
  }
  // 31 each on average, 5.5 beside it.
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 8);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 60);
  EXPECT_EQ(IntsOf(data.test, 2)[1], hashed[17]);
  // Columns are hashed each by itself.
  const TrainTest both = *LoadData(Options(lines, "0\t0\t7\t7\n1\t0\t8\t8\n", 8));
  const std::vector<int32_t> first = IntsOf(both.train, 1);
  const std::vector<int32_t> second = IntsOf(both.train, 2);
  int same = 0;
  for (size_t i = 0; i < 50; ++i) same += first[i] == second[i] ? 1 : 0;
  EXPECT_LT(same, 20);
}

// Of drawn data the number of categories is known, whether or not all occur.
TEST_F(CategoryColumns, OfClicksHaveAllThatMayBeDrawn) {
  const auto limits = [](uint64_t rows_max) {
    const Dataset train = LoadData({.format = "clicks",
                                    .vocabulary = 1000,
                                    .samples = 50,
                                    .dense_columns = 1,
                                    .categorical_columns = 3,
                                    .rows_max = rows_max})
                              ->train;
    std::vector<int64_t> of_columns;
    for (size_t f = 1; f <= 3; ++f) {
      of_columns.push_back(train.columns[f]->limit());
      for (const int32_t number : IntsOf(train, f)) {
        EXPECT_TRUE(number >= 0 && number < of_columns.back()) << number;
      }
    }
    return of_columns;
  };
  EXPECT_THAT(limits(5000), ElementsAre(11, 101, 1001));
  EXPECT_THAT(limits(1001), ElementsAre(11, 101, 1001));
  EXPECT_THAT(limits(1000), ElementsAre(11, 101, 1000));
}

TEST_F(CategoryColumns, SayWhatIsWrong) {
  EXPECT_THAT(LoadErrorOf(Options("1\t3\tff\t7,8\n", "1\t3\tff\t7\n")),
              HasSubstr("train: a cell of categorical column 2 has several categories"));
  EXPECT_THAT(LoadErrorOf(Options("1\t3\tff\n", "1\t3\tff\t7\n")), HasSubstr("has 3 columns"));
  DataOptions none = Options("1\t3\tff\t7\n", "1\t3\tff\t7\n");
  none.categorical_columns = 0;
  EXPECT_THAT(LoadErrorOf(none),
              HasSubstr("criteo is a data format of dlrm and dlrm_hashed, which have columns"));
}

}  // namespace
}  // namespace soapstone::models
