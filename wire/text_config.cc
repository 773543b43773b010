#include "wire/text_config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"

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
  if (parser.ParseFromString(text, config)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ":", error.text()));
}

std::string TextOf(const pb::Message& config) {
  std::string text;
  pb::TextFormat::PrintToString(config, &text);
  return text;
}

}  // namespace soapstone::wire
