// A link through shared memory of which the other side writes what it likes, at any time
// (transport/shm/shared_channel.h, transport/shm/shared_ring.h). Input: a list of steps.
#include <memory>
#include <utility>
#include <vector>

#include "base/memory/page_block.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/shm/shared_channel.h"

namespace soapstone::fuzz {
namespace {

using transport::SharedChannel;
using transport::SharedRing;

// In the link's memory: messages of the first side, of the second, leases of the first, of the
// second. Our channel is the second side.
constexpr size_t kLeaseRingBytes = 2 * SharedChannel::kLeasesMax * 16;
constexpr size_t kMessageRing = SharedRing::BytesFor(SharedChannel::kRingBytes);
constexpr size_t kStepsMax = 64;
constexpr uint64_t kSegmentPagesMax = 64;

class HostileLink {
 public:
  HostileLink() {
    const int fd = SharedChannel::MakeMemory();
    CHECK_GE(fd, 0);
    memory_ = PageBlock::MapShared(fd, SharedChannel::MemoryBytes(), true);
    CHECK(!memory_.empty());
    auto ours = SharedChannel::Map(fd, false, [](const SharedArena::Segment&) { return true; });
    CHECK(ours.ok()) << ours.status();
    ours_ = *std::move(ours);
    close(fd);
    messages_ = std::make_unique<SharedRing>(memory_.data(), SharedChannel::kRingBytes,
                                             SharedChannel::kRingBytes / 16);
    leases_ = std::make_unique<SharedRing>(memory_.data() + 2 * kMessageRing, kLeaseRingBytes,
                                           kLeaseRingBytes / 2);
  }

  void Run(FuzzInput input) {
    for (size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
      switch (input.Take<uint8_t>() % 6) {
        case 0:  // a record, as a writer that keeps to the ring would put it
          Put(messages_.get(), input.Bytes(input.Take<uint16_t>()));
          break;
        case 1:  // a lease given back
          Put(leases_.get(), input.Bytes(4));
          break;
        case 2: {  // anything anywhere
          const size_t at = input.Take<uint32_t>() % (SharedChannel::MemoryBytes() - 256);
          const std::string_view bytes = input.Bytes(input.Take<uint8_t>());
          std::memcpy(memory_.data() + at, bytes.data(), bytes.size());
          break;
        }
        case 3:
          AddSegment(input.Take<uint8_t>(), input.Take<uint16_t>());
          break;
        case 4:  // we lend
          Send(input.Take<uint16_t>());
          break;
        case 5:
          kept_.clear();  // leases go back
          break;
      }
      Receive();
    }
    Receive();
  }

 private:
  static void Put(SharedRing* ring, std::string_view bytes) {
    std::byte* record = ring->Reserve(bytes.size());
    if (record == nullptr) return;
    std::memcpy(record, bytes.data(), bytes.size());
    ring->Publish();
  }

  void AddSegment(uint64_t id, uint64_t pages) {
    const size_t size = (1 + pages % kSegmentPagesMax) * 4096;
    const int fd = SharedArena::MakeSealed("segment", size);
    CHECK_GE(fd, 0);
    // Sometimes of another size than is said.
    ours_->AddSegment(id, size + (pages >= kSegmentPagesMax * 16 ? 4096 : 0), fd);
    close(fd);
  }

  void Send(size_t size) {
    CHECK(SharedArena::Enable());
    const BufferPool::Block block = pool_.Take(size + 1);
    bool ring = false;
    const Buffer frame = block.View();
    const absl::Status sent = ours_->Send("header", absl::MakeConstSpan(&frame, 1), &ring);
    if (!sent.ok()) CheckError(sent, "");
  }

  void Receive() {
    Buffers frames;
    // A ring holds so many records at most.
    for (size_t i = 0; i < SharedChannel::kRingBytes / 8 && ours_->Receive(&frames); ++i) {
      for (const Buffer& frame : frames) {
        for (size_t b = 0; b < frame.size(); ++b) sum_ += static_cast<size_t>(frame.data()[b]);
      }
      kept_.insert(kept_.end(), frames.begin() + 1, frames.end());
    }
    if (!ours_->broken()) ours_->PrepareToSleep();
    ours_->Woke();
  }

  PageBlock memory_;
  std::unique_ptr<SharedChannel> ours_;
  std::unique_ptr<SharedRing> messages_, leases_;
  BufferPool pool_;
  Buffers kept_;
  size_t sum_ = 0;
};

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::HostileLink().Run({data, size});
  return 0;
}
