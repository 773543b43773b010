#include "transport/node/numbered_links.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

constexpr uint32_t kNoteMagic = 0x53455353;     // "SSES"
constexpr uint32_t kTrailerMagic = 0x4C525453;  // "STRL"
constexpr uint16_t kNoteVersion = 1;
constexpr absl::Duration kTendEvery = absl::Milliseconds(10);
constexpr absl::Duration kTendIdleEvery = absl::Milliseconds(200);
// A connection of ours on which nothing was heard for this long is asked, and then made anew.
constexpr absl::Duration kQuietMax = absl::Milliseconds(400);
constexpr int kSilentPart = 3;  // of the link's timeout; at most
constexpr absl::Duration kSilentMax = absl::Seconds(3);
constexpr absl::Duration kDialAgainMin = absl::Milliseconds(100);  // from one dial to the next,
constexpr absl::Duration kDialAgainMax = absl::Seconds(1);         // doubled while nobody is heard
// So much in that time is a message on its way; questions and answers are less.
constexpr int kLossesSaid = 8;
constexpr absl::Duration kSayLossesFor = absl::Seconds(10);
constexpr absl::Duration kLookAtMovedEvery = absl::Milliseconds(500);
constexpr uint64_t kMovedBytes = uint64_t{16} << 10;
constexpr absl::Duration kTellAfter = absl::Milliseconds(20);
constexpr absl::Duration kAskAfter = absl::Milliseconds(200);  // doubled up to
constexpr absl::Duration kAskMax = absl::Milliseconds(800);
constexpr uint64_t kTellMessages = 64;  // in hand and not said
constexpr uint64_t kTellBytes = uint64_t{1} << 20;
constexpr uint64_t kNumberBits = 48;  // above them, the attempt
constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;

uint64_t NewIncarnation() {
  uint64_t self = 0;
  while (self == 0) PCHECK(getrandom(&self, sizeof(self), 0) == sizeof(self));
  return self;
}

uint64_t BytesOf(absl::Span<const Buffer> payload) {
  uint64_t bytes = 0;
  for (const Buffer& frame : payload) bytes += frame.size();
  return bytes;
}

}  // namespace

struct NumberedLinks::Trailer {
  uint32_t magic;
  uint32_t version;
  uint64_t number;  // and the attempt
  uint64_t self;
  uint64_t other;
  uint64_t received;
};

struct NumberedLinks::Note {
  uint32_t magic = kNoteMagic;
  uint16_t version = kNoteVersion;
  Word word = Word::kAsk;
  uint64_t self = 0;
  uint64_t other = 0;
  uint64_t received = 0;
  uint64_t last = 0;  // kAsk: what was handed over before it; kTell: what should have come
};

NumberedLinks::Link* NumberedLinks::Find(const std::string& peer) {
  if (found_ != nullptr && found_->peer == peer) return found_;
  const auto found = links_.find(peer);
  if (found == links_.end()) return nullptr;
  found_ = &found->second;
  return found_;
}

NumberedLinks::Link* NumberedLinks::Make(const std::string& peer, bool ours) {
  if (links_.size() >= options_.links_max) return nullptr;
  Link* link = &links_.emplace(peer, Link(NewIncarnation(), options_.limits)).first->second;
  link->peer = peer;
  link->ours = link->proven = ours;
  link->ask_again = kAskAfter;
  if (ours) return link;
  unproven_.push_back(peer);
  while (unproven_.size() > options_.unproven_max) {
    const std::string oldest = std::move(unproven_.front());
    unproven_.pop_front();
    const Link* forgotten = Find(oldest);
    if (forgotten != nullptr && !forgotten->proven) Drop(oldest);
  }
  return Find(peer);
}

void NumberedLinks::Expect(const std::string& peer, SteadyTime now) {
  Link* link = Find(peer);
  if (link == nullptr) return;
  link->expected = true;
  link->heard_at = std::max(link->heard_at, now);
}

void NumberedLinks::Prove(const std::string& peer) {
  Link* link = Find(peer);
  if (link == nullptr || link->proven) return;
  link->proven = true;
  std::erase(unproven_, peer);
}

void NumberedLinks::Drop(const std::string& peer) {
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  if (found->second.waits) --waiting_;
  found_ = nullptr;
  links_.erase(found);
}

// Whether something is due on the link.
void NumberedLinks::Judge(Link* link) {
  const bool waits = !link->session.kept().empty() || link->tell_at != SteadyTime::InfiniteFuture();
  if (waits == link->waits) return;
  link->waits = waits;
  waiting_ += waits ? 1 : -1;
  if (waits) tend_at_ = SteadyTime::InfinitePast();  // not only when idle links are looked at
}

absl::Status NumberedLinks::Send(const std::string& peer, bool ours, std::string_view header,
                                 absl::Span<const Buffer> payload, SteadyTime now) {
  Link* link = Find(peer);
  if (link == nullptr) link = Make(peer, ours);
  if (link == nullptr) return absl::ResourceExhaustedError("too many links");
  const uint64_t bytes = header.size() + BytesOf(payload);
  if (!link->session.HasRoom(bytes)) {
    link->ask_at = std::min(link->ask_at, now);
    // Made once: a sender that is faster than its receiver sees it often.
    static const auto* full =
        new absl::Status(absl::ResourceExhaustedError("the peer's send queue is full"));
    return *full;
  }
  if (link->session.kept().empty()) {
    link->kept_since = now;
    link->ask_again = kAskAfter;
    link->ask_at = now + kAskAfter;
  }
  link->session.Keep({std::string(header), Buffers(payload.begin(), payload.end())}, bytes);
  if (!link->holds && link->next_to_put == link->session.sent()) {
    absl::Status put = PutOne(link);
    // Nobody is there, and nobody was since this began.
    if (absl::IsNotFound(put) && link->session.other() == 0) {
      Drop(peer);
      return put;
    }
  }
  Judge(link);
  return absl::OkStatus();
}

// The message next_to_put, with how far we are now.
absl::Status NumberedLinks::PutOne(Link* link) {
  wire::Session<Sent>& session = link->session;
  const Sent& sent = session.kept()[link->next_to_put - session.first_kept()].item;
  const Trailer trailer = {
      kTrailerMagic,  kNoteVersion,    uint64_t{link->attempt} << kNumberBits | link->next_to_put,
      session.self(), session.other(), session.received()};
  static_assert(sizeof(trailer) == kTrailerBytes);
  frame_.assign(sent.header);
  frame_.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  const bool again = link->next_to_put <= link->put_once;
  absl::Status put = put_(link->peer, link->ours, frame_, sent.payload, again);
  if (!put.ok()) return put;
  link->put_once = std::max(link->put_once, link->next_to_put);
  ++link->next_to_put;
  link->unsaid_messages = link->unsaid_bytes = 0;
  link->tell_at = SteadyTime::InfiniteFuture();
  return put;
}

void NumberedLinks::PutMore(Link* link) {
  while (!link->holds && link->next_to_put <= link->session.sent()) {
    if (!PutOne(link).ok()) return;
  }
}

void NumberedLinks::Say(Link* link, Word word, uint64_t last) {
  const wire::SessionGreeting greeting = link->session.greeting();
  const Note note = {.word = word,
                     .self = greeting.self,
                     .other = greeting.other,
                     .received = greeting.received,
                     .last = last};
  static_assert(std::is_trivially_copyable_v<Note> && sizeof(note) == kNoteBytes);
  // One that is not taken now is said again.
  (void)put_(link->peer, link->ours, {reinterpret_cast<const char*>(&note), sizeof(note)}, {}, true)
      .ok();
  if (word == Word::kBye) return;
  link->unsaid_messages = link->unsaid_bytes = 0;
  link->tell_at = SteadyTime::InfiniteFuture();
  Judge(link);
}

// False: nothing of it is to be taken.
bool NumberedLinks::Greeted(Link* link, const wire::SessionGreeting& theirs, SteadyTime now) {
  using Session = wire::Session<Sent>;
  const uint64_t kept = link->session.kept().size();
  switch (link->session.OnGreeting(theirs)) {
    case Session::Greeted::kGoesOn:
      Hear(link, now);
      if (link->session.kept().size() != kept) {
        AfterAcknowledgement(link, now);
      } else if (kept == 0) {
        link->ask_again = kAskAfter;
        link->ask_at = SteadyTime::InfiniteFuture();
      }
      return true;
    case Session::Greeted::kSuccessor:
      lost_.push_back({link->peer, "another process is there now"});
      link->next_to_put = 1;
      link->put_once = link->told_gap_at = 0;
      Hear(link, now);
      Judge(link);
      // What it sent to whom it took us for is not for us.
      return theirs.other == 0 || theirs.other == link->session.self();
    case Session::Greeted::kMistaken:
      Say(link, Word::kTell, 0);
      return false;
    case Session::Greeted::kLies:
      VLOG(1) << "an old or impossible greeting";
      return false;
  }
  return false;
}

void NumberedLinks::AfterAcknowledgement(Link* link, SteadyTime now) {
  link->next_to_put = std::max(link->next_to_put, link->session.first_kept());
  link->kept_since = link->session.kept().empty() ? SteadyTime::InfiniteFuture() : now;
  link->ask_again = kAskAfter;
  link->ask_at = now + kAskAfter;
  if (link->next_to_put <= link->session.sent()) PutMore(link);
  Judge(link);
}

NumberedLinks::Came NumberedLinks::Receive(const std::string& peer, bool ours, Buffers* frames,
                                           SteadyTime now) {
  Buffer& first = frames->front();
  Note note;
  const bool is_note = frames->size() == 1 && first.size() == sizeof(note) &&
                       std::memcmp(first.data(), &kNoteMagic, sizeof(kNoteMagic)) == 0;
  if (!is_note && first.size() < kTrailerBytes) return Came::kForeign;
  const size_t size = first.size() - kTrailerBytes;
  Trailer trailer;
  if (is_note) {
    std::memcpy(&note, first.data(), sizeof(note));
    if (note.version != kNoteVersion || note.self == 0) return Came::kForeign;
  } else {
    std::memcpy(&trailer, first.data() + size, sizeof(trailer));
    if (trailer.magic != kTrailerMagic || trailer.version != kNoteVersion || trailer.self == 0) {
      return Came::kForeign;
    }
  }
  Link* link = Find(peer);
  if (link == nullptr) link = Make(peer, ours);
  if (link == nullptr) return Came::kForeign;
  if (is_note) {
    OnNote(link, note, now);
    return Came::kOther;
  }
  if (!Greeted(link, {trailer.self, trailer.other, trailer.received}, now)) return Came::kOther;
  if (!ours && options_.waits && options_.waits(peer)) {
    link->waiting_number = trailer.number;
    return Came::kOther;
  }
  if (!IsNext(link, trailer.number)) return Came::kOther;
  link->unsaid_bytes += size + BytesOf(absl::MakeConstSpan(*frames).subspan(1));
  ++link->unsaid_messages;
  if (link->unsaid_messages >= kTellMessages || link->unsaid_bytes >= kTellBytes) {
    Say(link, Word::kTell, 0);
  } else if (link->tell_at == SteadyTime::InfiniteFuture()) {
    link->tell_at = now + kTellAfter;
    Judge(link);
  }
  first = first.Slice(0, size);
  return Came::kMessage;
}

bool NumberedLinks::IsNext(Link* link, uint64_t number) {
  using Arrival = wire::Session<Sent>::Arrival;
  const auto attempt = static_cast<uint16_t>(number >> kNumberBits);
  switch (link->session.OnArrival(number & kNumberMask)) {
    case Arrival::kNext:
      return true;
    case Arrival::kAgain:
      // It does not know how far we are.
      if (link->tell_at == SteadyTime::InfiniteFuture()) link->tell_at = SteadyTime::InfinitePast();
      Judge(link);
      return false;
    case Arrival::kGap:
      break;
  }
  // Once for each time that the other side goes back: more would have it go back more often.
  if (link->told_gap_at == link->session.received() + 1 && link->their_attempt == attempt) {
    return false;
  }
  link->their_attempt = attempt;
  link->told_gap_at = link->session.received() + 1;
  Say(link, Word::kTell, number);
  return false;
}

// Each of those goes back to what is not in hand.
void NumberedLinks::Release() {
  for (auto& [peer, link] : links_) {
    if (link.waiting_number == 0 || options_.waits(peer)) continue;
    Say(&link, Word::kTell, std::exchange(link.waiting_number, 0));
  }
}

void NumberedLinks::OnNote(Link* link, const Note& note, SteadyTime now) {
  if (note.word == Word::kBye) {
    // Only who is known to be there may say that it goes.
    if (note.self == link->session.other()) Drop(std::string(link->peer));
    return;
  }
  if (!Greeted(link, {note.self, note.other, note.received}, now)) return;
  if (note.word == Word::kAsk) return Say(link, Word::kTell, note.last);
  const bool of_this_attempt = note.last >> kNumberBits == link->attempt;
  if ((note.last & kNumberMask) <= note.received || !of_this_attempt) return;
  // What it should have is lost.
  GoBack(link, note.received + 1);
}

void NumberedLinks::GoBack(Link* link, uint64_t number) {
  link->next_to_put = std::max(number, link->session.first_kept());
  ++link->attempt;
  PutMore(link);
}

// What is to be sent again waits until the other end has answered.
void NumberedLinks::DialAgain(Link* link, SteadyTime now) {
  link->dialled_at = now;
  link->dial_again = std::clamp(2 * link->dial_again, kDialAgainMin, kDialAgainMax);
  if (const absl::Status dialled = redial_(link->peer); dialled.ok()) {
    link->undialled_since = SteadyTime::InfiniteFuture();
  } else {
    link->undialled_since = std::min(link->undialled_since, now);
    link->undialled = std::string(dialled.message());
  }
  ++link->attempt;
  link->holds = true;
  link->ask_at = now;
}

void NumberedLinks::Broke(const std::string& peer, SteadyTime now) {
  Link* link = Find(peer);
  if (link == nullptr || now - link->dialled_at < link->dial_again) return;
  DialAgain(link, now);
  Ask(link, now);
}

void NumberedLinks::Lose(Link* link, std::string why) {
  const SteadyTime now = SteadyNow();
  if (now - said_since_ > kSayLossesFor) said_ = 0;
  if (said_ == 0) said_since_ = now;
  LOG_IF(WARNING, ++said_ <= kLossesSaid)
      << "a connection over ZeroMQ is lost, with " << link->session.kept().size()
      << " messages: " << why
      << (said_ == kLossesSaid ? "; of more in these ten seconds nothing is said" : "");
  lost_.push_back({link->peer, std::move(why)});
  Drop(std::string(link->peer));
}

void NumberedLinks::Hear(Link* link, SteadyTime now) {
  link->heard_at = now;
  link->dial_again = kDialAgainMin;
  link->asked_since = SteadyTime::InfiniteFuture();
  link->holds = false;
}

// Answers wait behind a large message, at either end.
void NumberedLinks::LookAtMoved(Link* link, SteadyTime now) {
  const bool asks = link->waits || now - link->heard_at >= kQuietMax;
  if (!moved_ || !asks || now - link->looked_at < kLookAtMovedEvery) return;
  const MovedBytes moved = moved_(link->peer, link->ours);
  // Not what moved before somebody looked, nor another connection's.
  const bool looked = now - link->looked_at < 2 * kLookAtMovedEvery;
  const auto much = [&](uint64_t before, uint64_t bytes) {
    return looked && bytes >= before && bytes - before >= kMovedBytes;
  };
  if (much(link->moved.out, moved.out)) link->moved_out_at = now;
  if (much(link->moved.in, moved.in)) link->moved_in_at = now;
  link->moved = moved;
  link->looked_at = now;
}

// For the whole of link_timeout since somebody was to answer: who is stopped for less than that,
// just after it was heard or a while later, has lost nothing.
bool NumberedLinks::IsSilent(const Link& link, SteadyTime now) const {
  if (link.session.other() == 0 && !link.expected) return false;
  const SteadyTime there_at = std::max({link.heard_at, link.moved_out_at, link.moved_in_at});
  if (now - there_at < options_.link_timeout) return false;
  if (!link.session.kept().empty() && now - link.kept_since >= options_.link_timeout) return true;
  return link.ours && now - link.asked_since >= options_.link_timeout;
}

// What came meanwhile waits to be read.
void NumberedLinks::ForgivePause(SteadyTime now) {
  pauses_.Look(now);
  if (!pauses_.paused()) return;
  for (auto& [peer, link] : links_) {
    for (SteadyTime* at : {&link.kept_since, &link.heard_at, &link.asked_since, &link.dialled_at,
                           &link.undialled_since, &link.moved_out_at, &link.moved_in_at}) {
      pauses_.Forgive(at);
    }
  }
}

void NumberedLinks::Tend(SteadyTime now) {
  ForgivePause(now);
  if (now < tend_at_) return;
  tend_at_ = now + (waiting_ > 0 ? kTendEvery : kTendIdleEvery);
  std::vector<std::pair<Link*, std::string>> lost;
  for (auto& [peer, link] : links_) {
    if (link.waits || link.ours) TendOne(&link, now);
    LookAtMoved(&link, now);
    if (now - link.undialled_since >= options_.link_timeout) {
      lost.emplace_back(&link, link.undialled);
    } else if (IsSilent(link, now)) {
      lost.emplace_back(
          &link, absl::StrCat("no answer for ", absl::FormatDuration(options_.link_timeout)));
    }
  }
  for (auto& [link, why] : lost) Lose(link, std::move(why));
}

void NumberedLinks::TendOne(Link* link, SteadyTime now) {
  PutMore(link);
  if (now >= link->tell_at) Say(link, Word::kTell, 0);
  const bool heard = link->session.other() != 0;
  const bool quiet = link->ours && heard && now - link->heard_at >= kQuietMax;
  if (link->session.kept().empty() && !quiet) return;
  if (link->ask_at == SteadyTime::InfiniteFuture()) link->ask_at = now;
  const absl::Duration silent_max = std::min(kSilentMax, options_.link_timeout / kSilentPart);
  // A length that was changed on the way makes libzmq wait for what will never come: then one
  // direction goes on, and the other is taken over by the kernel and by nobody else.
  const bool one_way = link->ours && heard && !link->session.kept().empty();
  SteadyTime since = std::max(link->moved_out_at, link->dialled_at);
  since = std::max(since, quiet ? std::max(link->heard_at, link->moved_in_at) : link->kept_since);
  if ((quiet || one_way) && now - since >= silent_max) DialAgain(link, now);
  if (now >= link->ask_at) Ask(link, now);
}

void NumberedLinks::Ask(Link* link, SteadyTime now) {
  link->asked_since = std::min(link->asked_since, now);
  Say(link, Word::kAsk, uint64_t{link->attempt} << kNumberBits | (link->next_to_put - 1));
  link->ask_at = now + link->ask_again;
  link->ask_again = std::min(2 * link->ask_again, kAskMax);
}

bool NumberedLinks::all_acknowledged() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link.second.session.kept().empty(); });
}

void NumberedLinks::AskAll(SteadyTime now) {
  for (auto& [peer, link] : links_) {
    if (link.unsaid_messages > 0) Say(&link, Word::kTell, 0);
    link.ask_at = now;
  }
  tend_at_ = now;
}

void NumberedLinks::SayBye() {
  for (auto& [peer, link] : links_) {
    if (link.session.other() != 0) Say(&link, Word::kBye, 0);
  }
}

}  // namespace soapstone::transport
