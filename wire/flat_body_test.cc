// What follows from the fields that a flat body names (wire/message.h), for each there is.
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace soapstone::wire {
namespace {

void Fill(bool* x) { *x = true; }
void Fill(std::string* x) { *x = "text"; }
template <class Number>
void Fill(Number* x) {
  *x = 1;
}

Message WithBody(MessageType type, Body body) {
  Message message;
  message.type = type;
  message.from = Address::Of(ServerId{7});
  message.body = std::move(body);
  return message;
}

std::pair<uint64_t, uint64_t> PrintOf(const Body& body) {
  Fingerprint f;
  WithBody(MessageType::kNone, body).AddTo(&f);
  return f.value();
}

template <class B>
void ExpectEveryFieldCounts(B body, B* full) {
  std::set<std::pair<uint64_t, uint64_t>> prints = {PrintOf(body)};
  size_t fields = 0;
  B::Fields([&](const char* name, auto field) {
    Fill(&(body.*field));
    prints.insert(PrintOf(body));
    EXPECT_EQ(prints.size(), ++fields + 1) << B::kName << ": " << name;
  });
  *full = body;
}

// Under every type that has it.
void ExpectComesBack(const Body& body, const char* name) {
  int types = 0;
  for (int number = 0; number < 256; ++number) {
    const Message message = WithBody(static_cast<MessageType>(number), body);
    if (!Validate(message).ok()) continue;
    ++types;
    const Buffers frames = {Buffer::CopyOf(EncodeHeader(message, message.from))};
    const absl::StatusOr<Received> decoded = Decode(frames);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->message, message) << ToString(message);
  }
  EXPECT_GT(types, 0) << "no message has the body " << name;
}

// A text of it that is too long is refused, whatever the type.
template <class B>
void ExpectTextIsBounded(const B& full) {
  B::Fields([&](const char* name, auto field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(full.*field)>, std::string>) {
      B body = full;
      body.*field = std::string(FrameLimits{}.string_bytes_max + 1, 'x');
      for (int number = 0; number < 256; ++number) {
        const Message message = WithBody(static_cast<MessageType>(number), body);
        EXPECT_FALSE(Validate(message).ok()) << B::kName << ": " << name;
      }
    }
  });
}

template <class B>
void Check() {
  if constexpr (FlatBody<B>) {
    B full;
    ExpectEveryFieldCounts(B(), &full);
    ExpectComesBack(full, B::kName);
    ExpectTextIsBounded(full);
  }
}

template <class... Bodies>
void CheckAll(const std::variant<Bodies...>* /*all*/) {
  (Check<Bodies>(), ...);
}

TEST(FlatBodyTest, EachComesBackWithEveryFieldAndBoundedText) {
  CheckAll(static_cast<const Body*>(nullptr));
}

TEST(FlatBodyTest, EveryTypeHasANameOfItsOwn) {
  std::set<std::string> names;
  size_t known = 0;
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<MessageType>(number);
    if (!IsKnown(type)) continue;
    ++known;
    names.insert(NameOf(type));
  }
  EXPECT_EQ(names.size(), known);
  EXPECT_FALSE(names.contains("?"));
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace soapstone::wire
