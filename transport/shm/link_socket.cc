#include "transport/shm/link_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace soapstone::transport {
namespace {

// False: it does not fit.
bool NameOf(const std::string& endpoint, sockaddr_un* address, socklen_t* size) {
  const std::string name = absl::StrCat("soapstone/", endpoint);
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address->sun_path)) return false;
  name.copy(address->sun_path + 1, name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

ucred Who(int socket) {
  ucred who = {.pid = 0, .uid = ~geteuid(), .gid = 0};
  socklen_t size = sizeof(who);
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size);
  return who;
}

}  // namespace

LinkFds::~LinkFds() {
  for (const int fd : fds) close(fd);
}

bool SendLinkNote(int socket, const LinkNote& note, absl::Span<const int> fds) {
  iovec part = {const_cast<LinkNote*>(&note), sizeof(note)};
  alignas(cmsghdr) char control[CMSG_SPACE(kLinkFdsMax * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(note);
}

LinkNoteCame ReceiveLinkNote(int socket, LinkNote* note, LinkFds* fds) {
  iovec part = {note, sizeof(*note)};
  alignas(cmsghdr) char control[CMSG_SPACE(kLinkFdsMax * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return LinkNoteCame::kNothing;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); got > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    fds->fds.resize(count);
    std::memcpy(fds->fds.data(), CMSG_DATA(head), count * sizeof(int));
  }
  const bool good =
      got == sizeof(*note) && note->magic == kLinkMagic && note->version == kLinkVersion;
  if (good && (message.msg_flags & MSG_CTRUNC) != 0) return LinkNoteCame::kCut;
  return good ? LinkNoteCame::kNote : LinkNoteCame::kEnd;
}

bool SendProofNote(int socket, const ProofNote& note) {
  return send(socket, &note, sizeof(note), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(note);
}

LinkNoteCame ReceiveProofNote(int socket, ProofNote* note) {
  const ssize_t got = recv(socket, note, sizeof(*note), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return LinkNoteCame::kNothing;
  if (got <= 0) return LinkNoteCame::kEnd;
  if (got != sizeof(*note)) note->magic = 0;
  return LinkNoteCame::kNote;
}

std::string WhereNamesAre() {
  std::string boot;
  struct stat net = {};
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty() || stat("/proc/self/ns/net", &net) != 0) return "";
  return absl::StrCat(boot, " ", net.st_dev, " ", net.st_ino);
}

absl::StatusOr<int> ListenForLinks(const std::string& endpoint) {
  sockaddr_un address;
  socklen_t size = 0;
  if (!NameOf(endpoint, &address, &size)) return absl::InvalidArgumentError("the name is too long");
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return absl::ResourceExhaustedError("no Unix socket");
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    const int error = errno;
    close(listener);
    return absl::UnavailableError(absl::StrCat("a Unix socket: ", std::strerror(error)));
  }
  return listener;
}

int DialLink(const std::string& endpoint) {
  sockaddr_un address;
  socklen_t size = 0;
  if (!NameOf(endpoint, &address, &size)) return -1;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 && IsOwnUser(fd)) return fd;
  close(fd);
  return -1;
}

bool IsOwnUser(int socket) { return Who(socket).uid == geteuid(); }

pid_t ProcessBehind(int socket) { return Who(socket).pid; }

}  // namespace soapstone::transport
