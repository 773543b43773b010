// What all command lines share: the name of the command, how a parse ends. Reads no file: a command
// line, and for some the environment (environment_flags.h), in, values out.
#pragma once

namespace soapstone::apps {

inline constexpr char kSoapstone[] = "soapstone";  // the command, which its errors begin with

// The process shall end now with this code; help or the one line of the error was printed.
struct EndNow {
  int code = 0;
};

}  // namespace soapstone::apps
