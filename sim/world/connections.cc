#include "sim/world/connections.h"

#include "glog/logging.h"

namespace soapstone::sim {
namespace {

void AddChannels(const Connections::Channels& channels, Fingerprint* f) {
  f->Add(channels.size());
  for (const auto& [ends, messages] : channels) {
    f->Add(ends.first);
    f->Add(ends.second);
    f->Add(messages.size());
    for (const wire::Message& message : messages) message.AddTo(f);
  }
}

}  // namespace

void Connections::Send(Ends ends, wire::Message message, bool overtakes) {
  const Ends link = LinkOf(ends.first, ends.second);
  if (lost_.contains(link)) return;
  const auto broken = broken_.find(link);
  Messages& channel = (broken == broken_.end() ? channels_ : broken->second)[ends];
  channel.insert(overtakes ? channel.begin() : channel.end(), std::move(message));
}

wire::Message Connections::Take(Ends ends) {
  const auto it = channels_.find(ends);
  CHECK(it != channels_.end());
  wire::Message message = std::move(it->second.front());
  it->second.erase(it->second.begin());
  if (it->second.empty()) channels_.erase(it);
  return message;
}

void Connections::CutAllTo(uint32_t node) {
  const auto to_it = [&](const auto& channel) { return channel.first.second == node; };
  std::erase_if(channels_, to_it);
  for (auto& [link, kept] : broken_) std::erase_if(kept, to_it);
}

void Connections::Break(uint32_t a, uint32_t b, bool keeps) {
  Channels kept;
  for (const Ends& ends : {Ends(a, b), Ends(b, a)}) {
    const auto channel = channels_.find(ends);
    if (channel == channels_.end()) continue;
    kept.emplace(ends, std::move(channel->second));
    channels_.erase(channel);
  }
  if (keeps) broken_.emplace(LinkOf(a, b), std::move(kept));
}

void Connections::Resume(uint32_t a, uint32_t b) {
  Channels kept = std::move(broken_.extract(LinkOf(a, b)).mapped());
  for (auto& [ends, messages] : kept) {
    if (!messages.empty()) channels_.emplace(ends, std::move(messages));
  }
}

void Connections::Lose(uint32_t a, uint32_t b) {
  channels_.erase({a, b});
  channels_.erase({b, a});
  lost_.insert(LinkOf(a, b));
}

bool Connections::HasLostOne(uint32_t node) const {
  return std::any_of(lost_.begin(), lost_.end(),
                     [&](const Ends& link) { return link.first == node || link.second == node; });
}

std::set<Connections::Ends> Connections::InUse() const {
  std::set<Ends> links;
  for (const auto& [ends, messages] : channels_) links.insert(LinkOf(ends.first, ends.second));
  return links;
}

std::vector<Connections::Ends> Connections::Broken() const {
  std::vector<Ends> links;
  for (const auto& [link, kept] : broken_) links.push_back(link);
  return links;
}

void Connections::AddTo(Fingerprint* f) const {
  AddChannels(channels_, f);
  f->Add(broken_.size());
  for (const auto& [link, kept] : broken_) {
    f->Add(link.first);
    f->Add(link.second);
    AddChannels(kept, f);
  }
  f->Add(lost_.size());
  for (const auto& [a, b] : lost_) {
    f->Add(a);
    f->Add(b);
  }
}

}  // namespace soapstone::sim
