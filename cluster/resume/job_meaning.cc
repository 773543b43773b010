#include "cluster/resume/job_meaning.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "cluster/job_config.h"

namespace soapstone::apps {
namespace {

namespace pb = google::protobuf;

std::string ValueOf(const pb::Message& message, const pb::FieldDescriptor* field) {
  std::string text;
  pb::TextFormat::PrintFieldValueToString(message, field, -1, &text);
  return text;
}

std::string DifferenceOfMessages(const pb::Message& there, const pb::Message& here,
                                 const std::string& prefix) {
  const pb::Descriptor* type = there.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const pb::FieldDescriptor* field = type->field(i);
    const std::string name = absl::StrCat(prefix, std::string(field->name()));
    if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      std::string within =
          DifferenceOfMessages(there.GetReflection()->GetMessage(there, field),
                               here.GetReflection()->GetMessage(here, field), name + ".");
      if (!within.empty()) return within;
      continue;
    }
    const std::string before = ValueOf(there, field);
    const std::string now = ValueOf(here, field);
    if (before != now) return absl::StrCat(name, " is ", before, " there, and ", now, " here");
  }
  return "";
}

}  // namespace

wire::JobConfig MeaningOf(const wire::JobConfig& config) {
  wire::JobConfig meaning = WhatIsAgreedOn(config);
  const std::string precision = config.cluster().precision();
  meaning.clear_cluster();
  meaning.mutable_cluster()->set_precision(precision);
  meaning.clear_strict();
  meaning.mutable_training()->clear_stragglers();
  meaning.mutable_training()->clear_base_ms();
  meaning.mutable_training()->clear_evaluation();
  return meaning;
}

uint64_t MeaningDigest(const wire::JobConfig& config, uint64_t data_fingerprint) {
  Fingerprint fingerprint;
  fingerprint.Add(JobText(MeaningOf(config)));
  fingerprint.Add(data_fingerprint);
  return fingerprint.value().first;
}

std::string DifferenceOf(const wire::JobConfig& there, const wire::JobConfig& here) {
  return DifferenceOfMessages(MeaningOf(there), MeaningOf(here), "");
}

}  // namespace soapstone::apps
