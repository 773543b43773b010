// What all command lines share: the name of the command, how a parse ends. Reads no file and no
// environment: a command line in, values out.
#pragma once

namespace soapstone::apps {

inline constexpr char kSoapstone[] = "soapstone";  // the command, which its errors begin with

// The process shall end now with this code; help or the one line of the error was printed.
struct EndNow {
  int code = 0;
};

}  // namespace soapstone::apps
