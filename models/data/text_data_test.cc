// Text as sequences and as pairs of sentences.
#include "models/data/text_data.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class TextFiles : public DataFiles {};

TEST_F(TextFiles, BytesAreSequencesWithTheNextAsLabels) {
  const TrainTest data = *LoadData({.format = "bytes",
                                    .path = Write("a.txt", "abcdefgh"),
                                    .test_path = Write("b.txt", "\xffxy"),
                                    .length = 2});
  EXPECT_THAT(data.train.fields(),
              ElementsAre(FieldSpec{.name = "tokens", .is_float = false, .shape = {2}},
                          FieldSpec{.name = "labels", .is_float = false, .shape = {2}}));
  EXPECT_EQ(data.train.classes, 256);
  EXPECT_FALSE(data.train.IsLabelledVectors());
  EXPECT_THAT(IntsOf(data.train, 0), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre('b', 'c', 'd', 'e', 'f', 'g'));
  EXPECT_THAT(IntsOf(data.test, 0), ElementsAre(255, 'x'));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre('x', 'y'));
}

TEST_F(TextFiles, TheEndOfATextIsHeldOut) {
  const TrainTest data = *LoadData(
      {.format = "bytes", .path = Write("a.txt", "abcdefghij"), .test_fraction = 0.4, .length = 3});
  EXPECT_THAT(IntsOf(data.train, 0), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(IntsOf(data.test, 0), ElementsAre('g', 'h', 'i'));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre('h', 'i', 'j'));
}

// the: 3, cat and sat: 2 each, a: 1; <unk> is 0 and the end of a line 1.
TEST_F(TextFiles, WordsAreNumberedByFrequency) {
  const TrainTest data =
      *LoadData({.format = "words",
                 .path = Write("a.txt", "the  cat sat\nthe cat\r\n\nthe sat a\n"),
                 .test_path = Write("b.txt", "dog the <unk> cat\na"),
                 .length = 5,
                 .vocabulary = 100});
  EXPECT_EQ(data.train.classes, 6);
  EXPECT_THAT(data.vocabularies[0], ElementsAre("<unk>", "<eos>", "the", "cat", "sat", "a"));
  EXPECT_THAT(IntsOf(data.train, 0), ElementsAre(2, 3, 4, 1, 2, 3, 1, 1, 2, 4));
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(3, 4, 1, 2, 3, 1, 1, 2, 4, 5));
  EXPECT_THAT(IntsOf(data.test, 0), ElementsAre(0, 2, 0, 3, 1));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(2, 0, 3, 1, 5));
}

TEST_F(TextFiles, RareWordsAreUnknownBeyondTheVocabulary) {
  const TrainTest data = *LoadData({.format = "words",
                                    .path = Write("a.txt", "b a b a c b"),
                                    .test_path = Write("b.txt", "c b a"),
                                    .length = 2,
                                    .vocabulary = 3});
  EXPECT_EQ(data.train.classes, 3);
  EXPECT_THAT(IntsOf(data.train, 0), ElementsAre(2, 0, 2, 0));
  EXPECT_THAT(IntsOf(data.test, 0), ElementsAre(0, 2));
}

TEST_F(TextFiles, HeldOutWordsAreNotInTheVocabulary) {
  const TrainTest data = *LoadData({.format = "words",
                                    .path = Write("a.txt", "a a b b x x x x"),
                                    .test_fraction = 0.5,
                                    .length = 3,
                                    .vocabulary = 10});
  EXPECT_THAT(data.vocabularies[0], ElementsAre("<unk>", "<eos>", "a", "b"));
  EXPECT_THAT(IntsOf(data.test, 0), ElementsAre(0, 0, 0));
}

TEST_F(TextFiles, BadOnesAreNamed) {
  const std::string path = Write("a.txt", "abcdef");
  EXPECT_THAT(LoadErrorOf({.format = "bytes", .path = PathOf("none"), .length = 2}),
              HasSubstr("none: No such file"));
  EXPECT_THAT(LoadErrorOf({.format = "bytes", .path = path, .test_path = path, .length = 6}),
              EndsWith("a.txt: 6 tokens are shorter than a sequence of 6 and the token after it"));
  EXPECT_THAT(LoadErrorOf({.format = "bytes", .path = path, .test_fraction = 0.3, .length = 2}),
              EndsWith("a.txt, held-out part: 2 tokens are shorter than a sequence of 2 and the "
                       "token after it"));
  EXPECT_THAT(LoadErrorOf({.format = "bytes", .path = path, .length = 0}), HasSubstr("length 0"));
  EXPECT_THAT(
      LoadErrorOf(
          {.format = "words", .path = path, .test_path = path, .length = 1, .vocabulary = 2}),
      EndsWith("a vocabulary of 2 is too small: 2 are special tokens, so that at least 3 "
               "are needed"));
  EXPECT_THAT(LoadErrorOf({.format = "bytes", .path = Write("b.txt", ""), .length = 1}),
              HasSubstr("b.txt: too few samples"));
}

TEST(TinyShakespeare, IsRead) {
  const std::string path = SOAPSTONE_SOURCE_DIR "/../shared/data/tinyshakespeare/input.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "NOT RUN: no text at " << path;
  const TrainTest bytes =
      *LoadData({.format = "bytes", .path = path, .test_fraction = 0.1, .length = 40});
  EXPECT_EQ(bytes.train.size(), (1115394u - 111539u - 1) / 40);
  EXPECT_EQ(bytes.test.size(), 111538u / 40);
  MiniBatch feed;
  bytes.train.Gather({0}, &feed);
  std::string first;
  for (const int32_t token : feed.Ints(0)) first.push_back(static_cast<char>(token));
  EXPECT_EQ(first, "First Citizen:\nBefore we proceed any fur");
  const TrainTest words = *LoadData(
      {.format = "words", .path = path, .test_fraction = 0.1, .length = 40, .vocabulary = 5000});
  EXPECT_EQ(words.train.classes, 5000);
  EXPECT_EQ(words.vocabularies[0][2], "the");
}

class ParallelFiles : public DataFiles {
 protected:
  DataOptions Pairs(const std::string& text) {
    return {.format = "parallel",
            .path = Write("a.tsv", text),
            .test_path = Write("b.tsv", "le chat\tthe dog\n"),
            .length = 4,
            .vocabulary = 100};
  }
};

TEST_F(ParallelFiles, SentencesAreBegunEndedAndPadded) {
  const TrainTest data = *LoadData(Pairs("le chat noir\tthe cat\r\n\nle\tthe\n"));
  EXPECT_THAT(data.train.fields(),
              ElementsAre(FieldSpec{.name = "source", .is_float = false, .shape = {4}},
                          FieldSpec{.name = "target", .is_float = false, .shape = {4}},
                          FieldSpec{.name = "labels", .is_float = false, .shape = {4}}));
  EXPECT_THAT(data.vocabularies[0],
              ElementsAre("<pad>", "<unk>", "<s>", "</s>", "le", "chat", "noir"));
  EXPECT_THAT(data.vocabularies[1], ElementsAre("<pad>", "<unk>", "<s>", "</s>", "the", "cat"));
  EXPECT_EQ(data.train.classes, 6);
  EXPECT_EQ(data.train.columns[0]->limit(), 7);
  EXPECT_THAT(IntsOf(data.train, 0), ElementsAre(4, 5, 6, 3, /**/ 4, 3, 0, 0));
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(2, 4, 5, 0, /**/ 2, 4, 0, 0));
  EXPECT_THAT(IntsOf(data.train, 2), ElementsAre(4, 5, 3, -1, /**/ 4, 3, -1, -1));
  EXPECT_THAT(IntsOf(data.test, 0), ElementsAre(4, 5, 3, 0));
  EXPECT_THAT(IntsOf(data.test, 2), ElementsAre(4, 1, 3, -1));
}

TEST_F(ParallelFiles, LongPairsAreLeftOut) {
  EXPECT_EQ(LoadData(Pairs("a b c d\tx\na\tw x y z\na\tb\n"))->train.size(), 1u);
  EXPECT_THAT(LoadErrorOf(Pairs("a b c d\tx\na\tw x y z\n")),
              EndsWith("a.tsv: no pair fits a length of 4: both sides need at most 3 words"));
}

TEST_F(ParallelFiles, AShareIsHeldOut) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "a" + std::to_string(i) + "\tb\n";
  DataOptions options = Pairs(text);
  options.test_path.clear();
  options.seed = 3;
  const TrainTest data = *LoadData(options);
  EXPECT_EQ(data.train.size(), 16u);
  EXPECT_EQ(data.test.size(), 4u);
  EXPECT_EQ(data.vocabularies[0].size(), 4u + 16u);
  for (const int32_t token : IntsOf(data.test, 0)) EXPECT_LE(token, 3);  // unknown, </s>, padding
}

TEST_F(ParallelFiles, BadOnesAreNamed) {
  EXPECT_THAT(LoadErrorOf(Pairs("a\tb\na b\n")),
              EndsWith("a.tsv:2: 0 tabs; one is needed, between source and target"));
  EXPECT_THAT(LoadErrorOf(Pairs("a\tb\tc\n")), HasSubstr("a.tsv:1: 2 tabs"));
  EXPECT_THAT(LoadErrorOf(Pairs("a\tb\n\n \tb\n")), EndsWith("a.tsv:3: the source is empty"));
  EXPECT_THAT(LoadErrorOf(Pairs("a\t\n")), EndsWith("a.tsv:1: the target is empty"));
  EXPECT_THAT(LoadErrorOf(Pairs("\n\n")), EndsWith("a.tsv: no pairs in it"));
  DataOptions small = Pairs("a\tb\n");
  small.vocabulary = 4;
  EXPECT_THAT(LoadErrorOf(small), HasSubstr("a vocabulary of 4 is too small"));
  small.path = PathOf("none.tsv");
  EXPECT_THAT(LoadErrorOf(small), HasSubstr("none.tsv: No such file"));
}

}  // namespace
}  // namespace soapstone::models
