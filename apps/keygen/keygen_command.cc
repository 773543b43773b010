#include "apps/keygen/keygen_command.h"

#include <iostream>

#include "absl/strings/str_format.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_source.h"
#include "base/exit_codes.h"
#include "security/job_keys.h"

namespace soapstone::apps {

int Keygen(const KeygenFlags& flags) {
  const absl::StatusOr<security::JobKeys> keys = security::GenerateKeys(flags.out);
  if (!keys.ok()) return SayConfigError(kSoapstone, keys.status());
  for (const security::KeyRole role : security::kKeyRoles) {
    std::cout << absl::StreamFormat("%s/%s.key  %s\n", flags.out, security::NameOf(role),
                                    security::Fingerprint(keys->PublicOf(role)));
  }
  return kExitOk;
}

}  // namespace soapstone::apps
