#include "apps/loop/standard_descriptors.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace soapstone::apps {

void HoldStandardDescriptors(WhenClosed when) {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // Opened for the other direction it fails as a closed one does.
    const int fails = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    const int opened = open("/dev/null", when == WhenClosed::kError ? fails : O_RDWR);
    if (opened >= 0 && opened != fd) close(opened);  // never: it is the least that is free
  }
  signal(SIGXFSZ, SIG_IGN);
}

}  // namespace soapstone::apps
