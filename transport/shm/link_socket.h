// The Unix sockets by which ShmLinks (transport/shm/shm_links.h) agree on a link: how they are
// named, whose they are, and the notes that travel by them, with descriptors. Included by
// transport/*.cc only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/shm/link_proof.h"

namespace soapstone::transport {

inline constexpr uint32_t kLinkMagic = 0x4B4E4C53;  // "SLNK"
inline constexpr uint32_t kLinkVersion = 2;
inline constexpr size_t kLinkFdsMax = 3;  // along with a note

// What travels by the socket; descriptors come along.
struct LinkNote {
  enum class Word : uint32_t {
    kHello = 1,    // a new link: memory and bells come along; `id` is its token
    kTaken = 2,    // the link, or its new socket
    kSegment = 3,  // comes along
    kGoOn = 4,     // this socket takes the place of that of the link with the token `id`
    kUnknown = 5,  // there is no such link here
    kBye = 6,      // whoever says it takes nothing any more
  };
  uint32_t magic = kLinkMagic;
  uint32_t version = kLinkVersion;
  Word word = Word::kHello;
  uint32_t spare = 0;
  uint64_t id = 0;
  uint64_t size = 0;
};

// Descriptors that came along, closed with it.
struct LinkFds {
  LinkFds() = default;
  LinkFds(const LinkFds&) = delete;
  LinkFds& operator=(const LinkFds&) = delete;
  ~LinkFds();
  std::vector<int> fds;
};

// False: the socket has broken, or does not take it, which it does at once of so little.
bool SendLinkNote(int socket, const LinkNote& note, absl::Span<const int> fds = {});
enum class LinkNoteCame : uint8_t {
  kNothing,
  kNote,
  kEnd,  // of the socket, or something that is no note of ours
  kCut,  // a note without its descriptors: this process may have no more
};
LinkNoteCame ReceiveLinkNote(int socket, LinkNote* note, LinkFds* fds);

// The same of a proof. A packet of another kind is given out as a note without a magic.
bool SendProofNote(int socket, const ProofNote& note);
LinkNoteCame ReceiveProofNote(int socket, ProofNote* note);

// Listens for links to `endpoint`, by the name "\0soapstone/ENDPOINT". Errors: InvalidArgument (the
// name is too long), Unavailable (somebody else has it), ResourceExhausted.
absl::StatusOr<int> ListenForLinks(const std::string& endpoint);

// Where such names are the same: this start of the machine, and this network namespace of it. Who
// is elsewhere has another text. Empty: not to be known.
std::string WhereNamesAre();
// A socket to who listens there, of our user. -1: none.
int DialLink(const std::string& endpoint);

// Whether the other end is of our user, and which process it is (0: not to be known).
bool IsOwnUser(int socket);
pid_t ProcessBehind(int socket);

}  // namespace soapstone::transport
