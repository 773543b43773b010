// Numbers of JSON that others wrote. nlohmann makes an int of 6.7e81 as it does of 7, which has no
// meaning; here that is an exception as any other of its.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace soapstone {

template <class T>
concept WholeNumber = std::integral<T> && !std::same_as<T, bool>;

// A whole number that T has, else nlohmann's out_of_range.
template <WholeNumber T>
T WholeFrom(const nlohmann::json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  throw nlohmann::json::out_of_range::create(406, "a whole number in its range is needed", &json);
}

// As what is made of it wants it: .clock = Whole{object.at("clock")}.
struct Whole {
  const nlohmann::json& json;
  template <WholeNumber T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    return WholeFrom<T>(json);
  }
};

template <class T>
void ReadField(const nlohmann::json& json, T& field) {
  if constexpr (WholeNumber<T>) {
    field = WholeFrom<T>(json);
  } else {
    json.get_to(field);
  }
}

template <class A, class B>
void ReadField(const nlohmann::json& json, std::pair<A, B>& field) {
  ReadField(json.at(0), field.first);
  ReadField(json.at(1), field.second);
}

template <class T>
void ReadField(const nlohmann::json& json, std::vector<T>& field) {
  field.clear();
  for (size_t i = 0; i < json.size(); ++i) ReadField(json.at(i), field.emplace_back());
}

}  // namespace soapstone

// As NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE, and strict.
#define SOAPSTONE_READ_FIELD(field) \
  ::soapstone::ReadField(nlohmann_json_j.at(#field), nlohmann_json_t.field);
#define SOAPSTONE_JSON(Type, ...)                                                       \
  static void to_json(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t) {   \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))            \
  }                                                                                     \
  static void from_json(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t) { \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(SOAPSTONE_READ_FIELD, __VA_ARGS__))        \
  }
