#include "transport/shm/shared_channel.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

constexpr size_t kMessageHome = SharedChannel::kRingBytes / 16;
// All leases there are come back into their ring while nobody looks.
constexpr size_t kLeaseHome = SharedChannel::kLeasesMax * SharedRing::Taking(sizeof(uint32_t));
constexpr size_t kLeaseRingBytes = 2 * kLeaseHome;
constexpr size_t kPage = 4096;
// Of a record in a block, which is copied out: more than frames' places, a header of the largest
// size and what lies inline need. A segment may be of any size and hold no memory.
constexpr uint64_t kIndirectMax = uint64_t{16} << 20;
constexpr uint32_t kIndirect = 1;  // the record is in a block; what stands here is a ref to it
constexpr size_t kMessageRing = SharedRing::BytesFor(SharedChannel::kRingBytes);
constexpr size_t kLeaseRing = SharedRing::BytesFor(kLeaseRingBytes);

using Claimed = std::atomic<uint32_t>;
constexpr size_t kClaimAt = 2 * (kMessageRing + kLeaseRing);

constexpr size_t RoundUp(size_t size) { return (size + 7) / 8 * 8; }

void Copy(void* to, const void* from, size_t size) {
  if (size > 0) std::memcpy(to, from, size);  // of nothing, `from` may be null
}

// Which frames of a message stand in the record itself, the others being lent: those that come
// first and fit together.
class Inlining {
 public:
  bool Takes(size_t frame_bytes) {
    if (bytes_ + frame_bytes > SharedChannel::kInlineMax) return false;
    bytes_ += RoundUp(frame_bytes);
    return true;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// Made once: a sender that is faster than its receiver sees it often.
const absl::Status& Full() {
  static const auto* full = new absl::Status(absl::ResourceExhaustedError("the link is full"));
  return *full;
}

}  // namespace

struct SharedChannel::RecordHead {
  uint32_t header_bytes = 0;
  uint32_t frames = 0;
  uint32_t lease = 0;  // 0: nothing is lent
  uint32_t flags = 0;
};

struct SharedChannel::Inward {
  Inward(std::shared_ptr<PageBlock> memory, SharedRing ring)
      : memory(std::move(memory)), leases(ring) {}
  const std::shared_ptr<PageBlock> memory;
  std::map<uint64_t, PageBlock> segments;  // of the channel's thread; none is dropped
  std::atomic<size_t> held{0};             // messages whose leases are here
  Mutex mutex;
  SharedRing leases ABSL_GUARDED_BY(mutex);
};

// Gives a lease back when the last view of a message's payload has died.
class SharedChannel::Lease {
 public:
  Lease(std::shared_ptr<Inward> inward, uint32_t lease)
      : inward_(std::move(inward)), lease_(lease) {
    inward_->held.fetch_add(1, std::memory_order_relaxed);
  }
  ~Lease() {
    inward_->held.fetch_sub(1, std::memory_order_relaxed);
    MutexLock lock(&inward_->mutex);
    std::byte* record = inward_->leases.Reserve(sizeof(lease_));
    if (record == nullptr) return;  // the other side has lent more than it may: that is its loss
    std::memcpy(record, &lease_, sizeof(lease_));
    inward_->leases.Publish();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  const std::shared_ptr<Inward> inward_;
  const uint32_t lease_;
};

size_t SharedChannel::MemoryBytes() {
  return (kClaimAt + sizeof(Claimed) + kPage - 1) / kPage * kPage;
}

int SharedChannel::MakeMemory() { return SharedArena::MakeSealed("soapstone-link", MemoryBytes()); }

absl::StatusOr<std::unique_ptr<SharedChannel>> SharedChannel::Map(
    int fd, bool first, std::function<bool(const SharedArena::Segment&)> show,
    uint64_t unread_bytes_max) {
  if (!SharedArena::IsSealed(fd, MemoryBytes())) {
    return absl::InvalidArgumentError("the memory of a link is not what it should be");
  }
  auto memory = std::make_shared<PageBlock>(PageBlock::MapShared(fd, MemoryBytes(), true));
  if (memory->empty()) return absl::ResourceExhaustedError("no room to map a link");
  return std::unique_ptr<SharedChannel>(
      new SharedChannel(std::move(memory), first, std::move(show), unread_bytes_max));
}

// In the memory: messages of the first side, of the second, leases of the first, of the second; and
// whether one of them has claimed it.
SharedChannel::SharedChannel(std::shared_ptr<PageBlock> memory, bool first,
                             std::function<bool(const SharedArena::Segment&)> show,
                             uint64_t unread_bytes_max)
    : unread_bytes_max_(unread_bytes_max),
      memory_(std::move(memory)),
      out_(memory_->data() + (first ? 0 : kMessageRing), kRingBytes, kMessageHome),
      in_(memory_->data() + (first ? kMessageRing : 0), kRingBytes, kMessageHome),
      leases_back_(memory_->data() + 2 * kMessageRing + (first ? kLeaseRing : 0), kLeaseRingBytes,
                   kLeaseHome),
      show_(std::move(show)),
      inward_(std::make_shared<Inward>(
          memory_, SharedRing(memory_->data() + 2 * kMessageRing + (first ? 0 : kLeaseRing),
                              kLeaseRingBytes, kLeaseHome))),
      lent_(kLeasesMax) {
  unlent_.reserve(kLeasesMax);
  for (uint32_t i = kLeasesMax; i > 0; --i) unlent_.push_back(i - 1);
}

SharedChannel::~SharedChannel() = default;

bool SharedChannel::Claim() {
  auto* const claimed = reinterpret_cast<Claimed*>(memory_->data() + kClaimAt);
  return claimed->exchange(1, std::memory_order_acq_rel) == 0;
}

// ---- Out

void SharedChannel::TakeLeasesBack() {
  while (const auto record = leases_back_.Peek()) {
    uint32_t lease = 0;
    if (record->size() == sizeof(lease)) std::memcpy(&lease, record->data(), sizeof(lease));
    leases_back_.Pop();
    if (lease == 0 || lease > lent_.size() || !lent_[lease - 1].used) {
      broken_ = true;
      return;
    }
    Lent& lent = lent_[lease - 1];
    lent.used = false;
    lent.payload.clear();
    unlent_.push_back(lease - 1);
  }
  broken_ = broken_ || leases_back_.broken();
}

bool SharedChannel::HasRoom(uint64_t lent_bytes) {
  const uint64_t taken = out_.taken();
  while (!unread_.empty() && unread_.front().end <= taken) {
    unread_bytes_ -= unread_.front().bytes;
    unread_.pop_front();
  }
  return !unlent_.empty() && (unread_.empty() || unread_bytes_ + lent_bytes <= unread_bytes_max_);
}

void SharedChannel::Abandon() {
  TakeLeasesBack();
  static Mutex mutex;
  static auto* kept = new Buffers;  // never destroyed
  MutexLock lock(&mutex);
  for (Lent& lent : lent_) {
    std::move(lent.payload.begin(), lent.payload.end(), std::back_inserter(*kept));
    lent.payload.clear();
  }
}

// Where the frame lies, which is copied into the arena where it lies elsewhere. Shows its segment.
absl::StatusOr<SharedChannel::FrameRef> SharedChannel::RefTo(Buffer* frame) {
  SharedArena* arena = SharedArena::Get();
  if (arena == nullptr) return absl::FailedPreconditionError("no shared memory in this process");
  auto place = arena->Find(frame->data(), frame->size());
  if (!place.has_value()) {
    const BufferPool::Block block = pool_.Take(std::max(frame->size(), SharedArena::kBlockMin));
    std::memcpy(block.data, frame->data(), frame->size());
    *frame = block.View(0, frame->size());
    place = arena->Find(frame->data(), frame->size());
    starved_ = !place.has_value();
    if (starved_) return absl::ResourceExhaustedError("out of shared memory");
  }
  const uint64_t id = place->segment->id;
  if (id >= shown_.size()) shown_.resize(id + 1);
  if (shown_[id] == nullptr) {
    if (!show_(*place->segment)) return absl::ResourceExhaustedError("a segment was not taken");
    shown_[id] = place->segment;
  }
  return FrameRef{id, place->offset, frame->size()};
}

bool SharedChannel::ShowAgain() {
  return std::all_of(shown_.begin(), shown_.end(), [this](const SharedArena::Segment* segment) {
    return segment == nullptr || show_(*segment);
  });
}

void SharedChannel::WriteBody(absl::Span<const FrameRef> refs, std::string_view header,
                              absl::Span<const Buffer> payload, char* at) {
  const size_t refs_bytes = refs.size() * sizeof(FrameRef);
  Copy(at, refs.data(), refs_bytes);
  at += refs_bytes;
  Copy(at, header.data(), header.size());
  at += RoundUp(header.size());
  for (size_t i = 0; i < refs.size(); ++i) {
    if (refs[i].segment != 0 || refs[i].size == 0) continue;
    std::memcpy(at, payload[i].data(), refs[i].size);
    at += RoundUp(refs[i].size);
  }
}

absl::Status SharedChannel::Send(std::string_view header, absl::Span<const Buffer> payload,
                                 bool* ring) {
  *ring = false;
  starved_ = false;
  TakeLeasesBack();
  if (broken()) return absl::UnavailableError("the link is broken");
  if (payload.size() > kFramesMax) return absl::InvalidArgumentError("too many frames");
  std::vector<FrameRef, RecyclingAllocator<FrameRef>> refs(payload.size());
  Buffers lent;
  uint64_t lent_bytes = 0;
  Inlining inlined;
  for (const Buffer& frame : payload) {
    if (!inlined.Takes(frame.size())) lent_bytes += frame.size();
  }
  const size_t body = refs.size() * sizeof(FrameRef) + RoundUp(header.size()) + inlined.bytes();
  RecordHead head = {.header_bytes = static_cast<uint32_t>(header.size()),
                     .frames = static_cast<uint32_t>(payload.size())};
  size_t record_bytes = sizeof(head) + body;
  const bool indirect = record_bytes > SharedRing::RecordMax(kRingBytes);
  FrameRef indirect_ref;
  std::string whole;
  if (indirect) {
    lent_bytes += body;
    record_bytes = sizeof(head) + sizeof(indirect_ref);
  }
  // Before anything is copied: who finds no room tries again soon.
  if (lent_bytes > 0 && !HasRoom(lent_bytes)) return Full();
  std::byte* record = out_.Reserve(record_bytes);
  if (record == nullptr) return Full();
  Inlining inlines;
  for (size_t i = 0; i < payload.size(); ++i) {
    if (inlines.Takes(payload[i].size())) {
      refs[i].size = payload[i].size();
      continue;
    }
    lent.push_back(payload[i]);
    SOAP_ASSIGN_OR_RETURN(refs[i], RefTo(&lent.back()));
  }
  if (indirect) {
    whole.resize(body);
    WriteBody(refs, header, payload, whole.data());
    lent.push_back(Buffer(nullptr, whole.data(), body));
    SOAP_ASSIGN_OR_RETURN(indirect_ref, RefTo(&lent.back()));
    head.flags = kIndirect;
  }
  if (!lent.empty()) head.lease = unlent_.back() + 1;
  std::memcpy(record, &head, sizeof(head));
  if (indirect) {
    std::memcpy(record + sizeof(head), &indirect_ref, sizeof(indirect_ref));
  } else {
    WriteBody(refs, header, payload, reinterpret_cast<char*>(record + sizeof(head)));
  }
  *ring = out_.Publish();
  if (!lent.empty()) {
    unlent_.pop_back();
    lent_[head.lease - 1] = {std::move(lent), true};
    unread_.push_back({out_.published(), lent_bytes});
    unread_bytes_ += lent_bytes;
  }
  return absl::OkStatus();
}

// ---- In

bool SharedChannel::AddSegment(uint64_t id, size_t size, int fd) {
  if (const auto known = inward_->segments.find(id); known != inward_->segments.end()) {
    return known->second.size() == size;  // shown again
  }
  if (id == 0 || inward_->segments.size() >= kSegmentsMax || !SharedArena::IsSealed(fd, size)) {
    return false;
  }
  PageBlock memory = PageBlock::MapShared(fd, size, false);
  if (memory.empty()) return false;
  inward_->segments.emplace(id, std::move(memory));
  wants_segment_ = false;
  return true;
}

bool SharedChannel::Receive(Buffers* frames) {
  frames->clear();
  const auto record = in_.Peek();
  // Also here: who sends nothing for long has its blocks back all the same. After the look at what
  // has come (invariant 4).
  if (unlent_.size() < lent_.size()) TakeLeasesBack();
  if (!record.has_value()) return false;
  if (!Parse(*record, frames)) {
    frames->clear();
    if (!wants_segment_) broken_ = true;
    return false;
  }
  in_.Pop();
  return true;
}

// Null: outside its segment, or that is not there (yet).
const std::byte* SharedChannel::At(const FrameRef& ref) {
  const auto segment = inward_->segments.find(ref.segment);
  if (segment == inward_->segments.end()) {
    wants_segment_ = true;
    return nullptr;
  }
  const PageBlock& mapping = segment->second;
  const bool inside = ref.offset <= mapping.size() && ref.size <= mapping.size() - ref.offset;
  return inside ? mapping.data() + ref.offset : nullptr;
}

// The body of a record that does not fit into the ring, from where it lies.
bool SharedChannel::TakeIndirect(absl::Span<const std::byte> record, Buffer* body) {
  FrameRef ref;
  if (record.size() != sizeof(ref)) return false;
  std::memcpy(&ref, record.data(), sizeof(ref));
  const std::byte* there = At(ref);
  if (there == nullptr || ref.size > kIndirectMax) return false;
  *body = Buffer::CopyOf(there, ref.size);
  return true;
}

bool SharedChannel::Parse(absl::Span<const std::byte> record, Buffers* frames) {
  RecordHead head;
  if (record.size() < sizeof(head)) return false;
  std::memcpy(&head, record.data(), sizeof(head));
  record.remove_prefix(sizeof(head));
  wants_segment_ = false;
  if (head.frames > kFramesMax) return false;
  Buffer body;
  if (head.flags == kIndirect) {
    if (head.lease == 0 || !TakeIndirect(record, &body)) return false;
    record = absl::MakeConstSpan(body.data(), body.size());
  }
  const size_t refs_bytes = head.frames * sizeof(FrameRef);
  if (record.size() < refs_bytes || record.size() - refs_bytes < RoundUp(head.header_bytes)) {
    return false;
  }
  refs_.resize(head.frames);
  Copy(refs_.data(), record.data(), refs_bytes);
  size_t inlined = 0;
  for (const FrameRef& ref : refs_) {
    if (ref.segment != 0) {
      if (At(ref) == nullptr || head.lease == 0) return false;
    } else {
      if (ref.size > kInlineMax) return false;
      inlined += RoundUp(ref.size);
    }
  }
  header_.assign(reinterpret_cast<const char*>(record.data()) + refs_bytes, head.header_bytes);
  record.remove_prefix(refs_bytes + RoundUp(head.header_bytes));
  if (record.size() < inlined) return false;
  // Nothing is wrong, and no segment is missing: from here on the lease is ours to give back.
  const bool keeps = inward_->held.load(std::memory_order_relaxed) < kHeldMax;
  std::shared_ptr<Lease> lease;
  if (head.lease != 0)
    lease = std::allocate_shared<Lease>(RecyclingAllocator<Lease>(), inward_, head.lease);
  BufferPool::Block copies;
  if (inlined > 0) {
    copies = pool_.Take(inlined);
    std::memcpy(copies.data, record.data(), inlined);
  }
  frames->reserve(1 + refs_.size());
  frames->emplace_back(nullptr, header_.data(), header_.size());
  size_t at = 0;
  for (const FrameRef& ref : refs_) {
    if (ref.segment != 0 && keeps) {
      frames->emplace_back(lease, At(ref), ref.size);
    } else if (ref.segment != 0) {
      const BufferPool::Block block = pool_.Take(ref.size);
      std::memcpy(block.data, At(ref), ref.size);
      frames->push_back(block.View(0, ref.size));
    } else if (ref.size == 0) {
      frames->emplace_back();
    } else {
      frames->push_back(copies.View(at, ref.size));
      at += RoundUp(ref.size);
    }
  }
  return true;
}

}  // namespace soapstone::transport
