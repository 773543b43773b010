#include "base/spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  return std::string(Spec::Parse(text).status().message());
}

TEST(Spec, NameAlone) {
  const Spec spec = *Spec::Parse("bsp");
  EXPECT_EQ(spec.name, "bsp");
  EXPECT_TRUE(spec.arguments.empty());
}

TEST(Spec, NameAndArguments) {
  const Spec spec = *Spec::Parse("stall:p=0.02,factor=6");
  EXPECT_EQ(spec.name, "stall");
  EXPECT_EQ(spec.Real("p", 0, 0, 1).value(), 0.02);
  EXPECT_EQ(spec.Int("factor", 0, 0, 10).value(), 6);
}

TEST(Spec, AbsentArgumentIsTheFallback) {
  const Spec spec = *Spec::Parse("x");
  EXPECT_EQ(spec.Int("k", 9, 0, 1).value(), 9);
  EXPECT_EQ(spec.Real("k", 0.5, 0, 1).value(), 0.5);
  EXPECT_EQ(spec.Text("k", "none"), "none");
}

TEST(Spec, ValueMayHoldEqualsAndColon) {
  EXPECT_EQ(Spec::Parse("x:k=a=b:c")->Text("k", ""), "a=b:c");
}

TEST(Spec, MalformedTextIsNamed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("no name"));
  EXPECT_THAT(ErrorOf(":k=1"), HasSubstr("no name"));
  EXPECT_THAT(ErrorOf("x:k"), HasSubstr("'k' is not of the form key=value"));
  EXPECT_THAT(ErrorOf("x:k="), HasSubstr("'k=' is not of the form key=value"));
  EXPECT_THAT(ErrorOf("x:k=1,k=2"), HasSubstr("given twice"));
}

TEST(Spec, NumbersAreCheckedForFormAndRange) {
  const Spec spec = *Spec::Parse("x:a=1.5,b=many,c=nan,d=7");
  EXPECT_THAT(std::string(spec.Int("a", 0, 0, 9).status().message()), HasSubstr("whole number"));
  EXPECT_THAT(std::string(spec.Real("b", 0, 0, 9).status().message()), HasSubstr("not a number"));
  EXPECT_THAT(std::string(spec.Real("c", 0, 0, 9).status().message()), HasSubstr("outside [0, 9]"));
  EXPECT_THAT(std::string(spec.Int("d", 0, 0, 6).status().message()), HasSubstr("outside [0, 6]"));
}

TEST(Spec, UnknownArgumentListsTheKnown) {
  const absl::Status status = Spec::Parse("ssp:t=1")->AllowOnly({"s", "gate"});
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown argument 't'; it takes s, gate"));
  EXPECT_TRUE(Spec::Parse("ssp:s=1")->AllowOnly({"s"}).ok());
}

TEST(Spec, ListIsJoinedByPlus) {
  const auto specs = *Spec::ParseList("a:k=1+b");
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[1].name, "b");
  EXPECT_FALSE(Spec::ParseList("a+").ok());
}

TEST(Spec, ToStringParsesBack) {
  const Spec spec = *Spec::Parse("x:b=2,a=1");
  EXPECT_EQ(spec.ToString(), "x:a=1,b=2");
  EXPECT_EQ(*Spec::Parse(spec.ToString()), spec);
}

}  // namespace
}  // namespace soapstone
