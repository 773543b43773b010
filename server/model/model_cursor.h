// ModelCursor: goes over all elements of a model in its own order (parameters ascending, row-major)
// and says of each stretch that lies side by side on whose shard it is, and where. Of pieces a
// stretch may be short; none is kept, so a cursor costs what the layout has slices. A value.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/piece_runs.h"
#include "wire/layout.h"

namespace soapstone::server {

class ModelCursor {
 public:
  struct Place {
    ShardId shard{};
    BucketId bucket{};
    uint32_t index = 0;  // of the slice, in the bucket
    uint64_t begin = 0;  // elements [begin, begin + count) of the slice
    uint64_t count = 0;
  };
  explicit ModelCursor(std::shared_ptr<const wire::Layout> layout);

  bool done() const { return next_.empty(); }
  // REQUIRES: !done().
  const Place& place() const { return place_; }
  void Advance();
  // So many places are behind it.
  uint64_t passed() const { return passed_; }

 private:
  struct Source {
    wire::Slice slice;
    ShardId shard{};
    BucketId bucket{};
    uint32_t index = 0;
  };
  void Enter(uint32_t whole);
  void Put(uint32_t source, uint64_t element);
  void Look();

  std::shared_ptr<const wire::Layout> layout_;
  std::vector<std::vector<Source>> sources_;  // by parameter of the model
  std::vector<PieceRuns> runs_;               // by parameter of the layout
  uint32_t whole_ = 0;
  // Of the parameter in hand: where in it a slice goes on, which, and from which of its parameter's
  // elements.
  struct Next {
    uint64_t at = 0;
    uint32_t source = 0;
    uint64_t element = 0;
    friend auto operator<=>(const Next&, const Next&) = default;
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
  Place place_;
  uint64_t passed_ = 0;
};

}  // namespace soapstone::server
