// SHA-256 of bytes given piecewise, as lower-case hex (OpenSSL's).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace soapstone {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, size_t size);
  // The digest, 64 hex digits. REQUIRES: called once, nothing after it.
  std::string HexDigest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace soapstone
