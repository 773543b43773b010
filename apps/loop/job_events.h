// What the threads of workers and shards write into a timeline's folder (observe/timeline): which
// file is whose, and what of a message an event says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/job.h"
#include "observe/timeline/event_file.h"
#include "wire/message.h"

namespace soapstone::apps {

// Null where the job has no timeline. Null, with a line in the log, where the file cannot be made:
// the job goes on without.
std::unique_ptr<timeline::EventFile> OpenEvents(const Job& job, timeline::ThreadKind kind,
                                                uint32_t index, uint64_t session,
                                                std::vector<std::string> names = {});

// Likewise, for what was planned of `events` halves and an iteration; of no clock.
std::unique_ptr<timeline::EventFile> OpenPlanned(const Job& job, uint32_t index, uint64_t session,
                                                 std::vector<std::string> names, size_t events);

// Of a block between seats: the same where it is given and where it is taken.
uint64_t FlowOfBlock(uint32_t team, Clock clock, uint32_t number);

// Of a push: the same where it is sent and where it is taken in hand, another for each other one.
uint64_t FlowOf(const wire::Message& push);

// What a shard makes of a message that it takes in hand at `begin_ns`; of other kinds than pushes,
// clocks and pulls kNone.
timeline::Event HandledEvent(const wire::Message& message, Nanos begin_ns);
// An answer that leaves its shard at `now`; kNone: it is none to a step's pull.
timeline::Event AnsweredEvent(const wire::Message& answer, Nanos now);

}  // namespace soapstone::apps
