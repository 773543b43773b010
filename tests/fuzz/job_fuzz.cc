// Job files (cluster/job_config.h). Input: the text.
#include "absl/strings/match.h"
#include "cluster/job_config.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void Check(const std::string& text) {
  absl::StatusOr<wire::JobConfig> config = apps::ParseJobText(text, "job");
  if (!config.ok()) return CheckError(config.status(), "job:");
  apps::FillDefaults(&*config);
  const std::string whole = apps::JobText(*config);
  const absl::StatusOr<wire::JobConfig> again = apps::ParseJobText(whole, "again");
  CHECK(again.ok()) << again.status();
  CHECK_EQ(apps::JobDigest(*again, 1), apps::JobDigest(*config, 1));
  // A trace is a file of its own, which an input must not choose.
  if (absl::StrContains(config->training().stragglers(), "trace")) return;
  const absl::StatusOr<cluster::JobSpecs> specs = apps::CheckJobConfig(*config);
  if (!specs.ok()) return CheckError(specs.status(), "");
  CHECK_GE(apps::ServerCount(*config, specs->policy), 1u);
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
