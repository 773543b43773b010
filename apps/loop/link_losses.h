// What a node does about links that cannot be made again: it tells the scheduler, which decides who
// is counted out. Used by servers and workers.
#pragma once

#include "apps/loop/node_loop.h"
#include "wire/membership/membership_client.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::apps {

// `as`: the role that this node has a rank in, once it has.
void ReportLostLinks(Nanos now, wire::Role as, NodeLoop* loop, wire::MembershipClient* membership,
                     wire::Outbox* out);

}  // namespace soapstone::apps
