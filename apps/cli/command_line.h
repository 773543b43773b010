// What all command lines share: the name of the command, how a parse ends. Reads no file: a command
// line, and for some the environment (environment_flags.h), in, values out.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace soapstone::apps {

inline constexpr char kSoapstone[] = "soapstone";  // the command, which its errors begin with

// The process shall end now with this code; help or the one line of the error was printed.
struct EndNow {
  int code = 0;
};

// A flag's real numbers. CLI11's own range lets through what is no number, for it is neither too
// small nor too large.
inline CLI::Validator Within(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return std::string();
        return absl::StrCat("'", text, "' is no number from ", low, " to ", high);
      },
      absl::StrCat("FLOAT in [", low, " - ", high, "]"));
}

// A flag's whole numbers; CLI11's would take -1 for the greatest.
inline CLI::Validator WholeNumber(uint64_t low = 0, uint64_t high = ~uint64_t{0}) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        uint64_t value = 0;
        if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) return std::string();
        return absl::StrCat("'", text, "': a whole number is needed, from ", low, " to ", high);
      },
      "UINT");
}

}  // namespace soapstone::apps
