#include "models/runtime/model_reading.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/strict_json.h"
#include "models/runtime/model_input.h"

namespace soapstone::models {
namespace {

using Words = std::vector<std::string>;

constexpr double kDivisorMin = 1e-9;

Words Escaped(const Words& words) {
  Words out;
  out.reserve(words.size());
  for (const std::string& word : words) out.push_back(absl::CEscape(word));
  return out;
}

Words Unescaped(const nlohmann::json& json) {
  Words out;
  for (const nlohmann::json& word : json) {
    if (!absl::CUnescape(word.get<std::string>(), &out.emplace_back())) {
      throw nlohmann::json::other_error::create(501, "a word's escapes", &word);
    }
  }
  return out;
}

template <typename T>
void ReadWhole(const nlohmann::json& json, const char* name, T* out) {
  if (json.contains(name)) ReadField(json.at(name), *out);
}

ModelReading FromJson(const nlohmann::json& json) {
  ModelReading reading;
  ReadWhole(json, "image", &reading.input.image);
  ReadWhole(json, "classes", &reading.input.classes);
  ReadWhole(json, "vocabulary", &reading.input.vocabulary);
  ReadWhole(json, "steps", &reading.input.steps);
  ReadWhole(json, "source_steps", &reading.input.source_steps);
  ReadWhole(json, "categories", &reading.input.categories);
  ReadWhole(json, "length", &reading.length);
  reading.divisor = json.at("divisor").get<double>();
  if (!(reading.divisor >= kDivisorMin && reading.divisor <= 1 / kDivisorMin)) {
    throw nlohmann::json::other_error::create(501, "the divisor", &json);
  }
  if (json.contains("class_names")) reading.class_names = Unescaped(json.at("class_names"));
  const auto names = static_cast<int64_t>(reading.class_names.size());
  if (names > 0 && names != reading.input.classes) {
    throw nlohmann::json::other_error::create(501, "as many class names as classes", &json);
  }
  if (json.contains("header")) reading.header = Unescaped(json.at("header"));
  if (json.contains("words")) {
    // One list for all fields that have the same words.
    std::vector<Words> lists;
    for (const nlohmann::json& list : json.at("words")) lists.push_back(Unescaped(list));
    std::vector<size_t> fields;
    ReadField(json.at("words_of_fields"), fields);
    for (const size_t list : fields) reading.vocabularies.push_back(lists.at(list));
  }
  return reading;
}

}  // namespace

ModelReading ReadingOf(const TrainTest& data) {
  ModelReading reading = {.input = ModelInputOf(data),
                          .divisor = data.divisor,
                          .class_names = data.class_names,
                          .header = data.header};
  if (!data.train.fields()[0].is_float) reading.length = data.train.fields()[0].shape[0];
  bool named = false;
  for (const Words& words : data.vocabularies) named |= !words.empty();
  if (named) reading.vocabularies = data.vocabularies;
  return reading;
}

std::string ReadingText(const ModelReading& reading) {
  const ModelInput& input = reading.input;
  nlohmann::ordered_json json = {{"divisor", reading.divisor}};
  const auto add = [&](const char* name, const auto& value, bool there) {
    if (there) json[name] = value;
  };
  add("image", input.image, !input.image.empty());
  add("classes", input.classes, input.classes > 0);
  add("vocabulary", input.vocabulary, input.vocabulary > 0);
  add("steps", input.steps, input.steps > 0);
  add("source_steps", input.source_steps, input.source_steps > 0);
  add("categories", input.categories, !input.categories.empty());
  add("length", reading.length, reading.length > 0);
  add("class_names", Escaped(reading.class_names), !reading.class_names.empty());
  add("header", Escaped(reading.header), !reading.header.empty());
  std::vector<Words> lists;
  std::vector<size_t> fields;
  for (const Words& words : reading.vocabularies) {
    size_t at = 0;
    while (at < lists.size() && lists[at] != words) ++at;
    if (at == lists.size()) lists.push_back(words);
    fields.push_back(at);
  }
  for (Words& words : lists) words = Escaped(words);
  add("words", lists, !lists.empty());
  add("words_of_fields", fields, !lists.empty());
  return json.dump();
}

absl::StatusOr<ModelReading> ParseReading(const std::string& text) {
  try {
    return FromJson(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.type_error.302] type must be .."
    const absl::string_view what = error.what();
    const size_t name = what.find("] ");
    return absl::InvalidArgumentError(absl::StrCat(
        "how its samples are read is damaged: ", name == what.npos ? what : what.substr(name + 2)));
  } catch (const std::out_of_range&) {
    return absl::InvalidArgumentError(
        "how its samples are read is damaged: a list of words is not there");
  }
}

}  // namespace soapstone::models
