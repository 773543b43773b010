// Secret: 32 bytes that nobody else may learn. They are overwritten when it goes, and it cannot be
// printed: a log line that names one does not compile.
#pragma once

#include <string.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>

namespace soapstone::security {

class Secret {
 public:
  static constexpr size_t kBytes = 32;

  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret() { explicit_bzero(bytes_.data(), kBytes); }

  uint8_t* data() { return bytes_.data(); }
  const uint8_t* data() const { return bytes_.data(); }

  friend std::ostream& operator<<(std::ostream&, const Secret&) = delete;
  template <typename Sink>
  friend void AbslStringify(Sink&, const Secret&) = delete;

 private:
  std::array<uint8_t, kBytes> bytes_ = {};
};

}  // namespace soapstone::security
