#include "server/replica/shard_image.h"

#include "base/memory/state_image.h"

namespace soapstone::server {

// All that a shard consists of between two messages, but for what its options say.
struct ShardFields {
  template <class AnyShard, class Visitor>
  static void Visit(AnyShard& shard, Visitor&& visit) {
    visit(shard.policy_, shard.store_, shard.ledger_, shard.members_, shard.seen_, shard.held_,
          shard.readers_, shard.now_, shard.due_.ack, shard.due_.drain, shard.due_.saves,
          shard.not_finite_told_);
    auto& stats = shard.stats_;
    visit(stats.pushes_applied, stats.duplicates, stats.left_out, stats.rejects);
  }
  // What the constructor makes of one field.
  static void Forget(ImageFault fault, Shard* shard) {
    if (fault == ImageFault::kNone) return;
    const Shard made(shard->options_, shard->store_);
    if (fault == ImageFault::kSeenForgotten) shard->seen_ = made.seen_;
    if (fault == ImageFault::kReadersForgotten) shard->readers_ = made.readers_;
    if (fault == ImageFault::kPolicyForgotten) shard->policy_ = made.policy_;
    if (fault == ImageFault::kStatsForgotten) shard->stats_ = made.stats_;
  }
};

ShardImage ImageOf(const Shard& shard) {
  StateWriter writer;
  ShardFields::Visit(shard, writer);
  return {.books = writer.TakeBytes(), .payload = writer.TakeBuffers()};
}

bool Restore(const ShardImage& image, Shard* shard, ImageFault fault) {
  StateReader reader(image.books, image.payload);
  ShardFields::Visit(*shard, reader);
  ShardFields::Forget(fault, shard);
  return reader.done();
}

}  // namespace soapstone::server
