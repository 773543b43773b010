#include "apps/hosts/hosts_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/loop/cpu_placement.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

constexpr uint32_t kSlotsMax = 4096;
constexpr size_t kLineBytesMax = 1000;
constexpr char kTaken[] = "; a line is: host [slots=N] [role=server|worker] [addr=IP] [cpus=LIST]";

// Empty: it was well.
std::string SetOption(std::string_view word, HostLine* line) {
  const auto [name, value] = std::pair<std::string, std::string>(
      absl::StrSplit(std::string(word), absl::MaxSplits('=', 1)));
  if (name == "slots") {
    const bool good =
        absl::SimpleAtoi(value, &line->slots) && line->slots >= 1 && line->slots <= kSlotsMax;
    return good ? "" : absl::StrCat("slots=", value, " is not a number from 1 to ", kSlotsMax);
  }
  if (name == "role") {
    line->role = value;
    return value == "server" || value == "worker" ? "" : absl::StrCat("no role \"", value, "\"");
  }
  if (name == "addr") {
    in_addr address{};
    line->addr = value;
    const bool good = inet_pton(AF_INET, value.c_str(), &address) == 1;
    return good ? "" : absl::StrCat("addr=", value, " is no IPv4 address");
  }
  if (name != "cpus") return absl::StrCat("\"", std::string(word), "\" is not known");
  line->cpus = value;
  return ParseCpuList(value).ok() ? "" : absl::StrCat("cpus=", value, " is no list such as 0-3,8");
}

bool IsText(const std::string& raw) {
  return raw.size() <= kLineBytesMax && std::none_of(raw.begin(), raw.end(), [](char c) {
           return (static_cast<uint8_t>(c) < ' ' && c != '\t' && c != '\r') || c == '\x7f';
         });
}

absl::StatusOr<HostLine> ParseLine(const std::vector<std::string>& words) {
  HostLine line{.host = words[0]};
  if (line.host[0] == '-' || line.host.find('=') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", line.host, "\" is no host"));
  }
  std::set<std::string> seen;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string wrong = SetOption(words[i], &line);
    if (!wrong.empty()) return absl::InvalidArgumentError(wrong);
    if (!seen.insert(words[i].substr(0, words[i].find('='))).second) {
      return absl::InvalidArgumentError(absl::StrCat(words[i], " is there twice"));
    }
  }
  return line;
}

// Takes `count` slots for `role`, as far as there are some.
std::vector<size_t> Take(const std::vector<HostLine>& hosts, const std::string& role,
                         uint32_t count, std::vector<uint32_t>* free) {
  std::vector<size_t> taken;
  for (const std::string& of : {role, std::string()}) {
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].role != of) continue;
      for (; (*free)[i] > 0 && taken.size() < count; --(*free)[i]) taken.push_back(i);
    }
  }
  return taken;
}

}  // namespace

absl::StatusOr<std::vector<HostLine>> ParseHosts(std::string_view text, const std::string& name) {
  std::vector<HostLine> hosts;
  std::set<std::string> seen;
  int number = 0;
  const std::string all(text);
  for (const std::string& raw : std::vector<std::string>(absl::StrSplit(all, '\n'))) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(raw.substr(0, raw.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    const bool is_text = IsText(raw);
    if (words.empty() && is_text) continue;
    absl::StatusOr<HostLine> line =
        is_text ? ParseLine(words)
                : absl::InvalidArgumentError("not text, or more than 1000 bytes in a line");
    if (line.ok() && !seen.insert(line->host).second) {
      line = absl::InvalidArgumentError(
          absl::StrCat("host ", line->host, " is there twice: give it more slots"));
    }
    if (!line.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": ", line.status().message(), kTaken));
    }
    hosts.push_back(*std::move(line));
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": no host", kTaken));
  return hosts;
}

absl::StatusOr<HostPlaces> PlaceOnHosts(const std::vector<HostLine>& hosts, uint32_t servers,
                                        uint32_t workers, const std::string& name) {
  std::vector<uint32_t> free;
  for (const HostLine& host : hosts) free.push_back(host.slots);
  const HostPlaces places{.servers = Take(hosts, "server", servers, &free),
                          .workers = Take(hosts, "worker", workers, &free)};
  const size_t no_server = servers - places.servers.size();
  const size_t no_worker = workers - places.workers.size();
  if (no_server + no_worker == 0) return places;
  return absl::InvalidArgumentError(absl::StrCat(name, ": too few slots: ", no_server, " of ",
                                                 servers, " servers and ", no_worker, " of ",
                                                 workers, " workers have none"));
}

}  // namespace soapstone::apps
