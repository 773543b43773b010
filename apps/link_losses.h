// What a node does about links that cannot be made again: it tells the scheduler, which decides who
// is counted out, and ends where the link is the one to the scheduler. Used by servers and workers.
#pragma once

#include <optional>

#include "apps/node_loop.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::apps {

// `self`: this node's rank; empty before it has one. The result: how this node ends.
std::optional<wire::Notice> ReportLostLinks(NodeLoop* loop, std::optional<wire::Address> self,
                                            wire::Outbox* out);

}  // namespace soapstone::apps
