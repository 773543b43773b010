// ShardImage: a shard as bytes and payloads, from which another process makes the same shard
// (base/memory/state_image.h). Values are views: an update of the shard goes to another block while
// the image lives.
#pragma once

#include <cstdint>
#include <string>

#include "base/memory/buffer.h"
#include "server/shard/shard.h"

namespace soapstone::server {

struct ShardImage {
  std::string books;  // all but payloads
  Buffers payload;    // values, what the optimizer remembers, what held messages carry
};

// REQUIRES: no tree, no teams, no tables.
ShardImage ImageOf(const Shard& shard);

// What goes wrong between the two, for tests that have to find it.
enum class ImageFault : uint8_t {
  kNone,
  kSeenForgotten,     // which pushes have come
  kReadersForgotten,  // who has asked for what
  kPolicyForgotten,   // how far its members are
  kStatsForgotten,    // what it has counted: nothing that it does depends on that
};

// Makes of `shard`, which has the options of the one in the image, that one. False: the image is of
// another job, or damaged; the shard is good for nothing then.
bool Restore(const ShardImage& image, Shard* shard, ImageFault fault = ImageFault::kNone);

}  // namespace soapstone::server
