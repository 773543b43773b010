#include "security/job_keys.h"

#include <fcntl.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "security/key_file.pb.h"

namespace soapstone::security {
namespace {

constexpr size_t kTextBytes = 40;  // of a key in Z85
constexpr size_t kFileBytesMax = 4096;
constexpr mode_t kForOthers = S_IRWXO | S_IWGRP;  // a mounted Secret is read by its group

absl::Status Wrong(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("--key: ", path, ": ", what));
}

// What is wrong in a file of secrets is not quoted.
class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

// Texts of secrets, overwritten when they go.
struct Wiped {
  std::string text;
  ~Wiped() { explicit_bzero(text.data(), text.size()); }
};
struct WipedFile {
  KeyFile file;
  ~WipedFile() {
    std::string* secret = file.mutable_secret();
    explicit_bzero(secret->data(), secret->size());
  }
};

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

absl::Status ReadText(const std::string& path, std::string* text) {
  const Descriptor file = {open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat about = {};
  if (file.fd < 0 || fstat(file.fd, &about) != 0) return Wrong(path, std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return Wrong(path, "is no file");
  if ((about.st_mode & kForOthers) != 0) {
    return Wrong(path, absl::StrFormat("others may use it (mode %03o): chmod 600 %s",
                                       about.st_mode & 0777, path));
  }
  text->resize(kFileBytesMax);
  const ssize_t size = read(file.fd, text->data(), text->size());
  if (size < 0) return Wrong(path, std::strerror(errno));
  text->resize(static_cast<size_t>(size));
  return absl::OkStatus();
}

bool Decode(const std::string& text, uint8_t* key) {
  return text.size() == kTextBytes && zmq_z85_decode(key, text.c_str()) != nullptr;
}

std::string Encode(const uint8_t* key) {
  char text[kTextBytes + 1] = "";
  zmq_z85_encode(text, key, Secret::kBytes);
  std::string encoded = text;
  explicit_bzero(text, sizeof(text));
  return encoded;
}

bool BelongTogether(const JobKeys& keys) {
  Wiped secret = {Encode(keys.secret.data())};
  char derived[kTextBytes + 1] = "";
  PublicKey own = {};
  if (zmq_curve_public(derived, secret.text.c_str()) != 0) return false;
  if (!Decode(derived, own.data()) || own != keys.own()) return false;
  const auto& all = keys.public_keys;
  return all[0] != all[1] && all[1] != all[2] && all[0] != all[2];
}

absl::Status WriteNew(const std::string& path, const std::string& text) {
  const auto fails = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: ", path, ": ", what, std::strerror(errno)));
  };
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const Descriptor file = {open(path.c_str(), flags, S_IRUSR | S_IWUSR)};
  if (file.fd < 0) return fails(errno == EEXIST ? "nothing is overwritten: " : "");
  const bool written =
      write(file.fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(file.fd) == 0;
  if (written) return absl::OkStatus();
  absl::Status why = fails("cannot be written: ");
  unlink(path.c_str());
  return why;
}

std::string PathOf(const std::string& folder, KeyRole role) {
  return absl::StrCat(folder, "/", NameOf(role), ".key");
}

absl::Status WriteAll(const std::string& folder, const JobKeys& keys,
                      const std::array<Secret, kKeyRoles.size()>& secrets) {
  std::vector<std::string> made;
  for (const KeyRole role : kKeyRoles) {
    WipedFile file;
    file.file.set_role(NameOf(role));
    file.file.set_secret(Encode(secrets[static_cast<size_t>(role)].data()));
    file.file.set_scheduler(Encode(keys.PublicOf(KeyRole::kScheduler).data()));
    file.file.set_server(Encode(keys.PublicOf(KeyRole::kServer).data()));
    file.file.set_worker(Encode(keys.PublicOf(KeyRole::kWorker).data()));
    Wiped text;
    google::protobuf::TextFormat::PrintToString(file.file, &text.text);
    absl::Status written = WriteNew(PathOf(folder, role), text.text);
    if (!written.ok()) {
      for (const std::string& path : made) unlink(path.c_str());
      return written;
    }
    made.push_back(PathOf(folder, role));
  }
  return absl::OkStatus();
}

}  // namespace

const char* NameOf(KeyRole role) {
  if (role == KeyRole::kScheduler) return "scheduler";
  return role == KeyRole::kServer ? "server" : "worker";
}

std::optional<KeyRole> JobKeys::RoleOf(std::string_view public_key) const {
  for (const KeyRole role : kKeyRoles) {
    const PublicKey& key = PublicOf(role);
    if (public_key == std::string_view(reinterpret_cast<const char*>(key.data()), key.size())) {
      return role;
    }
  }
  return std::nullopt;
}

std::string Fingerprint(const PublicKey& key) {
  Sha256 sum;
  sum.Update(key.data(), key.size());
  return sum.HexDigest().substr(0, 16);
}

std::string KeyFileOf(const std::string& path, KeyRole role) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? PathOf(path, role) : path;
}

absl::StatusOr<JobKeys> ReadJobKeys(const std::string& path, KeyRole role) {
  const std::string file = KeyFileOf(path, role);
  Wiped text;
  SOAP_RETURN_IF_ERROR(ReadText(file, &text.text));
  WipedFile read;
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  if (!parser.ParseFromString(text.text, &read.file)) return Wrong(file, "is no key file");
  if (read.file.role().empty()) return Wrong(file, "is no key file, or an empty one");
  if (read.file.role() != NameOf(role)) {
    return Wrong(file, absl::StrCat("holds another role's key: a ", NameOf(role), " needs ",
                                    NameOf(role), ".key as `soapstone keygen` wrote it"));
  }
  JobKeys keys;
  keys.role = role;
  const bool whole = Decode(read.file.secret(), keys.secret.data()) &&
                     Decode(read.file.scheduler(), keys.public_keys[0].data()) &&
                     Decode(read.file.server(), keys.public_keys[1].data()) &&
                     Decode(read.file.worker(), keys.public_keys[2].data());
  if (!whole || !BelongTogether(keys)) return Wrong(file, "its keys are damaged");
  return keys;
}

absl::StatusOr<std::string> ReadKeyText(const std::string& path, KeyRole role) {
  SOAP_RETURN_IF_ERROR(ReadJobKeys(path, role).status());
  std::string text;
  SOAP_RETURN_IF_ERROR(ReadText(KeyFileOf(path, role), &text));
  return text;
}

absl::StatusOr<JobKeys> GenerateKeys(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: cannot make ", folder, ": ", error.message()));
  }
  JobKeys keys;
  std::array<Secret, kKeyRoles.size()> secrets;
  for (size_t i = 0; i < secrets.size(); ++i) {
    char public_text[kTextBytes + 1] = "";
    Wiped secret = {std::string(kTextBytes + 1, '\0')};
    if (zmq_curve_keypair(public_text, secret.text.data()) != 0) {
      return absl::InvalidArgumentError("--out: this libzmq was built without CURVE");
    }
    zmq_z85_decode(secrets[i].data(), secret.text.c_str());
    zmq_z85_decode(keys.public_keys[i].data(), public_text);
  }
  keys.secret = secrets[0];
  SOAP_RETURN_IF_ERROR(WriteAll(folder, keys, secrets));
  return keys;
}

}  // namespace soapstone::security
