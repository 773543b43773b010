// The first inputs of the targets that take what peers send: frames, streams, and links in memory.
#pragma once

#include <vector>

#include "tests/fuzz/corpus_folder.h"
#include "wire/message.h"

namespace soapstone::fuzz {

struct Sent {
  const char* name;
  wire::Address sender;
  wire::Message message;
};
// One of each kind.
std::vector<Sent> Messages();

void Frames(const Corpus& corpus);
void Streams(const Corpus& corpus);
void LinksInMemory(const Corpus& corpus);

}  // namespace soapstone::fuzz
