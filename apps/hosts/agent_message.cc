#include "apps/hosts/agent_message.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sha256.h"
#include "base/strict_json.h"

namespace soapstone::apps {

using Json = nlohmann::json;

SOAPSTONE_JSON(CheckJob, build, job)
SOAPSTONE_JSON(StartProcess, id, index, name, scheduler, bind, cpus, key)
SOAPSTONE_JSON(SignalProcess, id, number)
SOAPSTONE_JSON(Checked, build, error)
SOAPSTONE_JSON(OutputLine, id, is_error, text)
SOAPSTONE_JSON(ProcessEnded, id, by_signal, number)

static void to_json(Json& object, const StillHere& /*unused*/) { object = Json::object(); }
static void from_json(const Json& /*unused*/, StillHere& /*unused*/) {}

namespace {

constexpr char kKind[] = "soapstone";
constexpr size_t kFieldsMax = 16;  // of a message
constexpr std::array<const char*, std::variant_size_v<AgentMessage>> kNames = {
    "check", "start", "signal", "checked", "line", "ended", "here"};

// What a short line may not become: the parser would make a value of each of its brackets.
bool IsFlatObject(const std::string& line) {
  size_t objects = 0;
  size_t fields = 0;
  bool in_text = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (in_text && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      in_text = !in_text;
    } else if (!in_text) {
      if (line[i] == '[') return false;
      objects += line[i] == '{' ? 1 : 0;
      fields += line[i] == ':' ? 1 : 0;
    }
  }
  return objects == 1 && fields <= kFieldsMax;
}

template <size_t... I>
std::optional<AgentMessage> Read(const Json& object, std::index_sequence<I...> /*unused*/) {
  const std::string kind = object.at(kKind).get<std::string>();
  std::optional<AgentMessage> read;
  ((kind == kNames[I] ? void(read = object.get<std::variant_alternative_t<I, AgentMessage>>())
                      : void()),
   ...);
  return read;
}

}  // namespace

std::string ToJsonLine(const AgentMessage& message) {
  Json object = std::visit([](const auto& kind) { return Json(kind); }, message);
  object[kKind] = kNames[message.index()];
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<AgentMessage> FromJsonLine(const std::string& line) {
  if (!IsFlatObject(line)) return std::nullopt;
  try {  // nlohmann's interface; its exceptions stay here
    return Read(Json::parse(line), std::make_index_sequence<std::variant_size_v<AgentMessage>>());
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

absl::StatusOr<std::string> BuildId() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Sha256 sha;
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()) || file.gcount() > 0) {
    sha.Update(bytes.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad() || !file.eof()) return absl::InternalError("this program's file cannot be read");
  return sha.HexDigest();
}

}  // namespace soapstone::apps
