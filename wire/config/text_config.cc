#include "wire/config/text_config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace soapstone::wire {
namespace {

namespace pb = google::protobuf;

// Keeps the first error.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Text that stands in one line of an error, a log or JSON, whatever it is: no control characters,
// and UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF).
bool IsPlainText(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](size_t k) -> uint32_t {
      return k < text.size() ? static_cast<uint8_t>(text[k]) : 0;
    };
    const uint32_t lead = at(i);
    if (lead < 0x80) {
      if (lead < 0x20 || lead == 0x7f) return false;
      ++i;
      continue;
    }
    const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4) return false;
    uint32_t code = lead & (0x7f >> size);
    for (size_t k = 1; k < size; ++k) {
      if ((at(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (at(i + k) & 0x3f);
    }
    const bool overlong = code < (size == 3 ? 0x800u : size == 4 ? 0x10000u : 0x80u);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += size;
  }
  return true;
}

// The parser's errors quote the text.
std::string OneLine(std::string error) {
  constexpr size_t kErrorMax = 500;
  if (error.size() > kErrorMax) error.replace(kErrorMax, std::string::npos, " ..");
  if (IsPlainText(error)) return error;
  for (char& c : error) {
    if (c < ' ' || c > '~') c = '?';
  }
  return error;
}

// The name of the first field, in messages of messages too, whose text is not plain; or "".
std::string FieldNotPlain(const pb::Message& config) {
  const pb::Reflection& reflection = *config.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(config, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const bool text = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING;
    if (!text && field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(config, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      if (text) {
        const std::string value = index < 0 ? reflection.GetString(config, field)
                                            : reflection.GetRepeatedString(config, field, index);
        if (!IsPlainText(value)) return std::string(field->name());
        continue;
      }
      const pb::Message& inside = index < 0 ? reflection.GetMessage(config, field)
                                            : reflection.GetRepeatedMessage(config, field, index);
      if (const std::string name = FieldNotPlain(inside); !name.empty()) {
        return absl::StrCat(std::string(field->name()), ".", name);
      }
    }
  }
  return "";
}

}  // namespace

struct TextPlaces::Tree {
  std::string name;
  const pb::Descriptor* root = nullptr;
  pb::TextFormat::ParseInfoTree info;
};

TextPlaces::TextPlaces() : tree_(std::make_unique<Tree>()) {}
TextPlaces::~TextPlaces() = default;

std::string TextPlaces::Find(std::initializer_list<Step> path, bool* found) const {
  const pb::Descriptor* type = tree_->root;
  const pb::TextFormat::ParseInfoTree* info = &tree_->info;
  std::string place = tree_->name;
  *found = true;
  for (const Step& step : path) {
    const pb::FieldDescriptor* field =
        type == nullptr || info == nullptr ? nullptr : type->FindFieldByName(step.field);
    if (field == nullptr) {
      *found = false;
      return place;
    }
    const int index = field->is_repeated() ? step.index : -1;
    const pb::TextFormat::ParseLocation at = info->GetLocation(field, index);
    if (at.line < 0) {
      *found = false;
      return place;
    }
    place = absl::StrCat(tree_->name, ":", at.line + 1, ":", at.column + 1);
    type = field->message_type();
    info = type == nullptr ? nullptr : info->GetTreeForNested(field, index);
  }
  return place;
}

std::string TextPlaces::Of(std::initializer_list<Step> path) const {
  bool found = false;
  return Find(path, &found);
}

bool TextPlaces::Has(std::initializer_list<Step> path) const {
  bool found = false;
  Find(path, &found);
  return found;
}

absl::Status ParseTextConfig(const std::string& text, const std::string& name, pb::Message* config,
                             TextPlaces* places) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (places != nullptr) {
    places->tree_ = std::make_unique<TextPlaces::Tree>();
    places->tree_->name = name;
    places->tree_->root = config->GetDescriptor();
    parser.WriteLocationsTo(&places->tree_->info);
  }
  if (!parser.ParseFromString(text, config)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", OneLine(error.text())));
  }
  const std::string field = FieldNotPlain(*config);
  if (field.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": ", field, ": control characters, or bytes that are no UTF-8, stand in the text"));
}

std::string TextOf(const pb::Message& config) {
  std::string text;
  pb::TextFormat::PrintToString(config, &text);
  return text;
}

}  // namespace soapstone::wire
