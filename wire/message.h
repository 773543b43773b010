// Message: what actors exchange, as a plain value. Frames and protobuf are wire/frame.h's business;
// actors and the simulator see only this.
//
// Invariant: every data message (push, clock, pull, pull reply, reject) carries its epoch and
// (worker, clock); what else a type carries is its body.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "base/memory/shared_list.h"
#include "wire/checkpoint_bodies.h"
#include "wire/replication_bodies.h"

namespace soapstone::wire {

enum class Role : uint8_t {
  kNone = 0,
  kScheduler = 1,
  kServer = 2,
  kWorker = 3,
  kShard = 4,
  kPeer = 5,
};

// Who a message is from or for. Servers host shards: a message for a shard goes to its server.
// Workers of decentralised policies host a peer each, of their own rank.
struct Address {
  static constexpr uint32_t kTemporaryBit = 0x80000000u;

  Role role = Role::kNone;
  uint32_t index = 0;

  static Address Scheduler() { return {Role::kScheduler, 0}; }
  static Address Of(ServerId id) { return {Role::kServer, Index(id)}; }
  static Address Of(WorkerId id) { return {Role::kWorker, Index(id)}; }
  static Address Of(ShardId id) { return {Role::kShard, Index(id)}; }
  static Address PeerOf(WorkerId id) { return {Role::kPeer, Index(id)}; }
  // Of a node that has no rank yet, from its Hello's nonce: Welcome or Refuse finds it there. Ranks
  // are below 2^31, so it is never another node's rank.
  static Address Temporary(Role role, uint64_t nonce) {
    return {role, kTemporaryBit | static_cast<uint32_t>(nonce)};
  }
  bool IsTemporary() const { return (index & kTemporaryBit) != 0; }
  friend auto operator<=>(const Address&, const Address&) = default;
  std::string ToString() const;  // "worker-3"
};

enum class MessageType : uint8_t {
  kNone = 0,
  // Membership, end of job: scheduler <-> everyone.
  kHello = 1,         // node -> scheduler: asks for a place. Body Hello.
  kWelcome = 2,       // scheduler -> node: its rank and the session. Body Welcome.
  kRefuse = 3,        // scheduler -> node: no place, and why. Body Notice.
  kRoster = 4,        // scheduler -> all: members and shards from this epoch on. Body Roster.
  kRosterAck = 5,     // shard -> scheduler: installed `epoch`; `clock` = the shard's frontier.
                      // worker -> scheduler, where share_lead > 0: `clock` = its bound b
  kStart = 6,         // scheduler -> worker: all shards are ready; begin at `clock`
  kHeartbeat = 7,     // node -> scheduler. Body Progress, SlowWork, ServerProgress or none.
  kHeartbeatAck = 8,  // scheduler -> node
  kDone = 9,          // worker -> scheduler: completed its last clock. Body Progress.
  kLeave = 10,        // worker -> scheduler: leaves cleanly after this clock. Body Progress.
  kEvaluate = 11,     // scheduler -> worker: evaluate the final parameters
  kEvaluated = 12,    // worker -> scheduler. Body Evaluation; of a classifier a frame a class: how
                      // many of its held-out samples were taken for each class, u32
  kSave = 13,         // scheduler -> server 0 -> shard: hand me it. Body Save.
  kSlices = 14,       // shard -> server 0: the bucket's slices, in the layout's order; of a table
                      // two frames: keys, ascending, and rows. Body Slices.
  kSaved = 15,        // server 0 -> scheduler: model written. Body Saved.
  kShutdown = 16,     // scheduler -> all: the job is over. Body Notice.
  kCheckpoint = 37,   // scheduler -> shard: be captured, for a checkpoint, at `clock`
  kWritten = 38,      // shard -> scheduler: what became of it. Body Written; sums of blocks, u64.
  kBound = 39,        // scheduler -> worker: begin no clock from `clock` on. Body Bound.
  kBounded = 40,      // worker -> scheduler: `clock`, at or above that, is the first it will not
                      // begin. Body Bound, the one answered.
  kCaptured = 41,     // shard -> scheduler: it is captured at `clock`, and not written yet
  kAskLeave = 42,     // server, worker -> scheduler: it has to leave. Where the job stops for that,
                      // with a checkpoint, it goes on until then
  kMayLeave = 43,     // scheduler -> worker that has asked: the job goes on without it
  kRecord = 44,       // replica -> the next of its chain: a message it has taken. Body Record.
  kRecorded = 45,     // the last of a chain -> its head. Body Recorded.
  // server, worker -> scheduler: in a strict job the guarantee was broken. Body Notice.
  kBroken = 17,
  kNotFinite = 18,  // worker, shard -> scheduler: at `clock` training diverged. Body NotFinite.
  kLinkLost = 19,   // node -> scheduler: it cannot reach another node. Body LostLink.
  kWait = 34,  // scheduler -> node: no place yet, and why; its Hello is to come again. Body Notice.
  // Data: worker <-> shard.
  kPush = 20,       // one bucket's gradient (or elastic difference); a frame a slice. Of a table:
                    // the keys of rows, ascending, then their gradients, [keys, dim]. Body Push.
  kClock = 21,      // the worker completed `clock`-1 on this shard. Body Completion.
  kPull = 22,       // asks for the shard's parameters, to be used at `clock`, and of each table
                    // for the rows of some keys: a frame a table, ascending; or no frame, no row.
                    // Body Pull.
  kPullReply = 23,  // a frame a slice, then a frame a table: the rows asked for, [keys, dim].
                    // Body PullReply.
  kReject = 24,     // shard -> worker: a data message was not taken; `epoch` is the refused
                    // message's. Body Notice.
  // Data: shard <-> shard.
  kHeld = 25,    // shard -> shard 0: all pushes of `worker` for round `clock` are here
  kChosen = 26,  // shard 0 -> shard: round `clock` takes the updates of these. Body WorkerSet.
  // Data: peer <-> peer, with body Parcel. docs/wire.md has what each field means in each.
  kParcel = 30,    // values or sums of round `clock`
  kState = 31,     // all that a newcomer needs: the values, then the optimizer's state
  kStanding = 32,  // where a peer stands, said when members change; `clock`: its version
  kFinished = 33,  // a peer has nothing more to send
  // Data: worker <-> worker of a team.
  kBlock = 35,   // of the team's messages at `clock` one, plain, a frame; without a frame: its
                 // receiver may begin the clock after that (docs/execution.md). Body Block.
  kLoaded = 36,  // `clock`: the newest whose parameters its sender has, as it takes the roster of
                 // `epoch`; -1: none yet (worker/team_takeover.h)
};

// A body whose fields are numbers and text says them once, by name: its printing, its form on the
// wire (the fields of the message of frame.proto that `kName` names in the header), its fingerprint
// and the limits of its texts follow from that. The other bodies have each of these written out.
template <class Body>
concept FlatBody = requires {
  Body::kName;
};

// Of a process key (security/process_keys.h): so many bytes, or none in a job without keys.
inline constexpr size_t kProcessKeyBytes = 32;

struct Hello {
  Role role = Role::kNone;
  int64_t wanted_rank = -1;    // -1: any
  std::string endpoint;        // where peers reach this node; empty where nobody needs to
  uint64_t nonce = 0;          // tells two processes that want one rank apart
  uint64_t config_digest = 0;  // of the job's meaning; must equal the scheduler's
  // What the bits of its sums depend on besides the job, such as "avx2, oneDNN 2.6.3".
  std::string arithmetic;
  std::string key;   // of a job with keys: the process's own, its public half
  std::string host;  // its machine's name, as that calls itself; for people
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Welcome {
  uint32_t rank = 0;
  uint64_t nonce = 0;  // of the Hello answered
  static constexpr char kName[] = "welcome";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("rank", &Welcome::rank);
    visit("nonce", &Welcome::nonce);
  }
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Member {
  WorkerId worker{};
  Clock start = 0;       // takes part from this clock on
  Epoch admitted = 0;    // epoch of its admission; older messages of this rank are stale
  bool joining = false;  // known to shards, start not yet fixed
  bool original = true;  // there since the job's start; false for a replacement
  std::string endpoint;  // where other workers reach it; empty where none needs to
  std::string key;       // of its process, as its Hello says it
  friend bool operator==(const Member&, const Member&) = default;
};

struct ServerEntry {
  ServerId server{};
  std::string endpoint;
  std::string key;  // as a member's
  friend bool operator==(const ServerEntry&, const ServerEntry&) = default;
};

// How the micro-batches of a batch are shared out from a clock on: ranges in the order of ranks.
struct Shares {
  Clock from = 0;
  std::vector<uint32_t> micro_batches;  // by rank, members or not; their sum is the job's M
  friend bool operator==(const Shares&, const Shares&) = default;
};

// Shard k is hosted by server k / shards_per_server, or as its chain says (HeadOf).
struct Roster {
  SharedList<Member> workers;        // ascending by worker
  std::vector<ServerEntry> servers;  // ascending by server
  uint32_t worker_count = 0;         // ranks of the job: [0, worker_count)
  uint32_t shards_per_server = 1;
  SharedList<Shares> shares;  // ascending by `from`; before the first: LeavesOfRank
  // > 0: the shares are about to change. A worker that gets such a roster after one that is not so
  // binds itself to begin no clock from b = its next clock + share_lead on, until a roster with 0
  // comes; it acknowledges with b. The new shares hold from max b on: nobody has begun that clock.
  Clock share_lead = 0;
  SharedList<Chain> chains;  // by shard; none: each is on one server
  friend bool operator==(const Roster&, const Roster&) = default;
};

// Updates that a worker left out because they were not finite: of each, the first tensor found so.
struct LeftOut {
  std::string tensor;
  uint64_t updates = 0;
  Clock first = 0;  // the clock of the first of them
  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

// Values that a worker has waited for, longer than it should, and has asked for again; or a block
// of another worker of its team, which is not asked for.
struct Waiting {
  Address of;       // who has them: a shard, the worker's own peer, or that worker
  Clock clock = 0;  // of the read, as who has them counts
  Nanos for_ns = 0;
  uint32_t asked = 0;  // again, so often
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

// "2.5 s for shard-0: values of clock 17, asked for again 2 times".
std::string ToString(const Waiting& waiting);

// Cumulative since the worker's start.
struct Progress {
  static constexpr size_t kLeftOutMax = 256;  // tensors told apart; the last stands for the rest

  Clock clock = 0;
  uint64_t samples = 0;
  double loss_sum = 0;        // over `samples`
  uint64_t pushed_bytes = 0;  // payload
  uint64_t pulled_bytes = 0;  // payload
  Nanos compute_ns = 0;
  Nanos blocked_ns = 0;  // from a step's last pull sent to its last reply
  uint64_t rejects = 0;
  std::vector<uint64_t> read_lags;  // count of reads by observed lag; the last entry is "or more"
  Nanos injected_ns = 0;            // rested in the device, as a straggler model asked
  // Parts of blocked_ns; what is left is the network's.
  Nanos parked_ns = 0;             // a shard's policy kept the pull
  Nanos queued_ns = 0;             // the pull waited until its shard took it in hand
  uint64_t skipped = 0;            // steps that were not made, because the others had gone on
  std::vector<LeftOut> left_out;   // by tensor, in the order of their first
  std::optional<Waiting> waiting;  // now; the longest of several
  uint64_t violations = 0;  // of its policy's guarantee, that the worker or its peer has found
  // Counts one more update of `tensor`.
  void LeaveOut(const std::string& tensor, Clock clock, uint64_t updates = 1);
  // Adds all counters of another; the clock stays.
  void Add(const Progress& other);
  friend bool operator==(const Progress&, const Progress&) = default;
};

// How far a server is with work that takes as long as the model is large: initial values before it
// acknowledges its first roster, the model's file at the end. It rides on the server's heartbeats,
// so that the scheduler can tell slow from hung; a heartbeat without it says that there is none.
struct SlowWork {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  static constexpr char kName[] = "slow_work";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("done_bytes", &SlowWork::done_bytes);
    visit("total_bytes", &SlowWork::total_bytes);
  }
  friend bool operator==(const SlowWork&, const SlowWork&) = default;
};

// How one that reads a shard stands there: a worker, and at the root of a tree of servers a group.
// Counts are since the shard's start.
struct ReaderState {
  WorkerId worker{};
  Clock clock = kNoClock;  // that it has completed there; kNoClock: it is no member
  uint64_t reads = 0;
  uint64_t lag_sum = 0;    // of the reads
  uint64_t lag_max = 0;    // likewise
  uint32_t parked_ms = 0;  // it waits for values now, and has for so long; 0: it does not
  friend bool operator==(const ReaderState&, const ReaderState&) = default;
};

// How the reads of one shard stand.
struct ShardReads {
  static constexpr size_t kReadersMax = 256;
  // Of more readers, and where a server has many shards, those stand for all that have so many
  // hundredths of them at or below their mean lag.
  static constexpr std::array<uint64_t, 7> kQuantiles = {0, 10, 25, 50, 75, 90, 100};

  ShardId shard{};
  Clock frontier = 0;
  uint32_t reader_count = 0;  // members, and others who have read
  uint32_t parked_count = 0;  // of them, who wait now
  // All, ascending; or those of kQuantiles, in its order.
  std::vector<ReaderState> readers;
  bool folded() const { return readers.size() != reader_count; }
  friend bool operator==(const ShardReads&, const ShardReads&) = default;
};

// What a server's heartbeat says of its shards' reads, every second one. At most 24 bytes a reader.
struct ServerProgress {
  static constexpr size_t kShardsMax = 512;    // of a server with more, the first
  static constexpr size_t kReadersMax = 4096;  // of all its shards; beyond it shards are folded
  std::vector<ShardReads> shards;              // ascending
  friend bool operator==(const ServerProgress&, const ServerProgress&) = default;
};

struct Evaluation {
  uint64_t samples = 0;
  double correct = 0;  // of many places a sample counts by the share that is
  double loss_sum = 0;
  static constexpr char kName[] = "evaluation";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("samples", &Evaluation::samples);
    visit("correct", &Evaluation::correct);
    visit("loss_sum", &Evaluation::loss_sum);
  }
  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

struct Saved {
  std::string path;
  std::string sha256;  // of all parameters in order, row-major little-endian f32
  static constexpr char kName[] = "saved";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("path", &Saved::path);
    visit("sha256", &Saved::sha256);
  }
  friend bool operator==(const Saved&, const Saved&) = default;
};

struct WorkerSet {
  std::vector<WorkerId> workers;  // ascending
  friend bool operator==(const WorkerSet&, const WorkerSet&) = default;
};

// What one peer sends another beside the payload.
struct Parcel {
  uint64_t sequence = 0;  // grows with each message to that peer; what does not is a duplicate
  uint32_t step = 0;      // of its round
  uint64_t begin = 0;     // elements [begin, end) of the model
  uint64_t end = 0;
  double weight = 0;        // push-sum: the share of omega that goes along
  bool has_values = false;  // kStanding
  bool finished = false;    // kStanding
  // The header's on the wire, as those of a HeaderBody.
  uint64_t samples = 0;   // of the gradients in a round's sum
  uint64_t checksum = 0;  // of its sender's values, in a job that checks them; else 0
  friend bool operator==(const Parcel&, const Parcel&) = default;
};

// The first that a node saw of a divergence: a worker's gradient, or what an update made of the
// parameters.
struct NotFinite {
  int64_t worker = -1;      // whose; -1: not known
  bool parameters = false;  // else the gradient
  std::string tensor;
  static constexpr char kName[] = "not_finite";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("worker", &NotFinite::worker);
    visit("parameters", &NotFinite::parameters);
    visit("tensor", &NotFinite::tensor);
  }
  friend bool operator==(const NotFinite&, const NotFinite&) = default;
};

struct Notice {
  int32_t code = 0;  // of kShutdown: the exit code
  std::string text;
  static constexpr char kName[] = "notice";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("code", &Notice::code);
    visit("text", &Notice::text);
  }
  friend bool operator==(const Notice&, const Notice&) = default;
};

struct LostLink {
  Address other;
  std::string why;  // "no connection for 5s"
  friend bool operator==(const LostLink&, const LostLink&) = default;
};

// The bodies of data messages and of saving. On the wire their fields are the header's own
// (wire/header_fields.h): a message a gradient is small change beside it, but not a pull or a
// clock.
template <class Body>
concept HeaderBody = Body::kInHeader;

struct Push {
  BucketId bucket{};
  MicroBatchRange micro_batches;   // which of them are summed in the payload
  uint32_t micro_batch_count = 0;  // M
  uint64_t samples = 0;            // summed in the payload
  uint64_t batch_samples = 0;      // of the whole global batch at this clock
  static constexpr bool kInHeader = true;
  friend bool operator==(const Push&, const Push&) = default;
};

struct Completion {
  uint32_t pushes = 0;  // sent to this shard for the clock that is complete
  static constexpr bool kInHeader = true;
  friend bool operator==(const Completion&, const Completion&) = default;
};

struct Pull {
  bool final = false;  // the parameters after the last clock
  static constexpr bool kInHeader = true;
  friend bool operator==(const Pull&, const Pull&) = default;
};

struct PullReply {
  Clock oldest = kNoClock;  // the least clock applied over members, at the read
  uint64_t version = 0;     // updates that are in the values, as their keeper counts
  uint64_t checksum = 0;    // of the values (SumOf), in a job that checks them; else 0
  bool final = false;       // the parameters after the last clock
  Nanos parked_ns = 0;      // from the shard's first look at its pull to the answer
  Nanos queued_ns = 0;      // of its pull, from arrival to that look
  static constexpr bool kInHeader = true;
  friend bool operator==(const PullReply&, const PullReply&) = default;
};

struct Save {
  BucketId bucket{};
  static constexpr bool kInHeader = true;
  friend bool operator==(const Save&, const Save&) = default;
};

struct Slices {
  BucketId bucket{};
  uint64_t checksum = 0;  // as a reply's
  static constexpr bool kInHeader = true;
  friend bool operator==(const Slices&, const Slices&) = default;
};

struct Block {
  uint32_t number = 0;  // of the team's messages
  // Empty: of the micro-batches of its sender's team; else of those of a team that was lost.
  MicroBatchRange micro_batches;
  static constexpr bool kInHeader = true;
  friend bool operator==(const Block&, const Block&) = default;
};

// Fingerprints hold a body's place here: new ones come last.
using Body =
    std::variant<std::monostate, Hello, Welcome, Roster, Progress, Evaluation, Saved, Notice,
                 Parcel, WorkerSet, NotFinite, LostLink, SlowWork, Push, Completion, Pull,
                 PullReply, Save, Slices, ServerProgress, Block, Written, Bound, Record, Recorded>;

struct Message {
  MessageType type = MessageType::kNone;
  Address from;
  Address to;
  uint64_t session = 0;  // of the running job; 0 before Welcome
  Epoch epoch = 0;       // sender's

  // Data messages.
  WorkerId worker{};
  Clock clock = kNoClock;

  // Not on the wire: of several that wait for the same connection the least goes first, and those
  // of one priority in the order sent.
  uint32_t priority = 0;
  // Not on the wire: in a server, from arrival to its shard's first look.
  Nanos queued_ns = 0;

  Body body;  // the one of the type, as Validate (wire/frame.h) sees to
  Buffers payload;

  // Of what is on the wire.
  friend bool operator==(const Message& a, const Message& b);
  void AddTo(Fingerprint* f) const;
  uint64_t payload_bytes() const;
};

// A message's body has another type than its own type says: the program ends.
[[noreturn]] void DieOfBody(const Message& message);

// The body of a message whose type says that it has this one.
template <class B>
const B& As(const Message& message) {
  const B* body = std::get_if<B>(&message.body);
  if (body == nullptr) DieOfBody(message);
  return *body;
}
template <class B>
B& As(Message* message) {
  B* body = std::get_if<B>(&message->body);
  if (body == nullptr) DieOfBody(*message);
  return *body;
}

// The checksum of a reply's frames: of its tensors', then of the single rows of the last frames,
// one for each of `row_bytes`, which says how long a row of it is.
uint64_t SumOf(const Buffers& frames, absl::Span<const size_t> row_bytes = {});

// "push"; "?" where there is no such type.
const char* NameOf(MessageType type);

// "push worker-1 -> shard-0 clock 3 bucket 0 leaves [0,2)"; for logs.
std::string ToString(const Message& message);

}  // namespace soapstone::wire
