#include "sim/world/choice.h"

#include "absl/strings/str_cat.h"

namespace soapstone::sim {

using Kind = Choice::Kind;

uint32_t* FaultBudget::Of(Kind kind) {
  switch (kind) {
    case Kind::kCrash:
      return &crashes;
    case Kind::kLeave:
      return &leaves;
    case Kind::kJoin:
      return &joins;
    case Kind::kDuplicate:
      return &duplicates;
    case Kind::kReport:
      return &reports;
    case Kind::kBreak:
      return &breaks;
    case Kind::kLose:
      return &losses;
    case Kind::kForget:
      return &forgets;
    case Kind::kAsk:
      return &asks;
    case Kind::kLateWord:
      return &late_words;
    case Kind::kSilence:
    case Kind::kDeadline:
      return &timers;
    case Kind::kServerCrash:
      return &server_crashes;
    case Kind::kServerSuspect:
      return &server_suspects;
    default:
      return nullptr;
  }
}

void FaultBudget::AddTo(Fingerprint* f) const {
  for (const uint32_t left : {crashes, leaves, joins, duplicates, reports, breaks, losses,
                              late_words, forgets, asks, timers, server_crashes, server_suspects}) {
    f->Add(left);
  }
}

std::string Describe(const Choice& choice, const std::function<std::string()>& head,
                     const std::function<std::string()>& slot, size_t slots) {
  switch (choice.kind) {
    case Kind::kDeliver:
      return absl::StrCat("deliver ", head());
    case Kind::kDevice:
      return absl::StrCat("device of ", slot(), " answers");
    case Kind::kCrash:
      return absl::StrCat("CRASH of ", slot());
    case Kind::kNotice:
      return absl::StrCat("the coordinator notices the loss of ", slot());
    case Kind::kCut:
      return absl::StrCat("CUT: lost from ", head(), " on");
    case Kind::kDuplicate:
      return absl::StrCat("DUPLICATE ", head());
    case Kind::kLeave:
      return absl::StrCat("LEAVE asked of ", slot());
    case Kind::kJoin:
      return absl::StrCat("JOIN of process ", slots);
    case Kind::kReport:
      return absl::StrCat("REPORT of ", slot(), ": ", choice.to, " ns a sample");
    case Kind::kBreak:
      return absl::StrCat("BREAK between nodes ", choice.from, " and ", choice.to);
    case Kind::kResume:
      return absl::StrCat("nodes ", choice.from, " and ", choice.to, " are connected again");
    case Kind::kLose:
      return absl::StrCat("LOST: the link between nodes ", choice.from, " and ", choice.to);
    case Kind::kLateWord:
      return absl::StrCat("LATE: node ", choice.to, " finds its link to ", slot(), " lost");
    case Kind::kSettle:
      return "the coordinator acts upon lost links";
    case Kind::kForget:
      return absl::StrCat("FORGOTTEN by its server: ", head());
    case Kind::kAsk:
      return absl::StrCat("ASKED AGAIN by ", slot());
    case Kind::kWatch:
      return "an hour later all that wait ask again";
    case Kind::kSilence:
      return absl::StrCat("TIMEOUT of ", slot(), ", which lives");
    case Kind::kDeadline:
      return "DEADLINE of what the coordinator waits for";
    case Kind::kHeartbeat:
      return absl::StrCat(slot(), " is heard again");
    case Kind::kServerCrash:
      return absl::StrCat("CRASH of server ", choice.from);
    case Kind::kServerNotice:
      return absl::StrCat("the coordinator notices the loss of server ", choice.from);
    case Kind::kServerSuspect:
      return absl::StrCat("SUSPECTED, though it lives: server ", choice.from);
    case Kind::kCheckpoint:
      return "CHECKPOINTS are asked for";
  }
  return "?";
}

}  // namespace soapstone::sim
