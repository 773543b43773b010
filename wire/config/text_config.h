// Configuration files in protobuf text format: parsed with the place of every error, and of every
// field that was set, so that later checks can say where the fault is too. Who calls: the readers
// of job files (cluster/job_config.h) and of experiments (experiment/spec.h). Reads no file.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace soapstone::wire {

// Where the fields of a parsed text stand.
class TextPlaces {
 public:
  // A field by its name; of a repeated one, which element.
  struct Step {
    const char* field = "";
    int index = 0;
  };

  TextPlaces();
  ~TextPlaces();
  TextPlaces(const TextPlaces&) = delete;
  TextPlaces& operator=(const TextPlaces&) = delete;

  // "name:line:column" of the field that `path` leads to, from the root; of its nearest ancestor
  // in the text where the field was not set; "name" where there is none.
  std::string Of(std::initializer_list<Step> path) const;
  // Whether the text sets that field.
  bool Has(std::initializer_list<Step> path) const;

 private:
  friend absl::Status ParseTextConfig(const std::string& text, const std::string& name,
                                      google::protobuf::Message* config, TextPlaces* places);
  struct Tree;
  std::string Find(std::initializer_list<Step> path, bool* found) const;

  std::unique_ptr<Tree> tree_;
};

// Fills in `config` from `text`. `name` stands for the file in errors; `places` may be null.
// Error: InvalidArgument, "name:line:column: what". Unknown fields are errors, and so is text with
// control characters or that is no UTF-8: what is read here stands in one-line errors and in JSON.
absl::Status ParseTextConfig(const std::string& text, const std::string& name,
                             google::protobuf::Message* config, TextPlaces* places = nullptr);

// Text format, all set fields.
std::string TextOf(const google::protobuf::Message& config);

}  // namespace soapstone::wire
