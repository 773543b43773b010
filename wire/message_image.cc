#include "wire/message_image.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/frame.h"

namespace soapstone::wire {

void WriteState(StateWriter* writer, const Message& message) {
  // Who sent a shard's message is of no account here, but it has to be a node.
  const bool of_node = message.from.role != Role::kShard;
  writer->Write(EncodeHeader(message, of_node ? message.from : Address::Of(ServerId{0})));
  writer->Write(message.payload);
}

bool ReadState(StateReader* reader, Message* message) {
  std::string header;
  Buffers payload;
  reader->Read(&header);
  reader->Read(&payload);
  if (!reader->ok()) return false;
  payload.insert(payload.begin(), Buffer::CopyOf(header));
  absl::StatusOr<Received> received = Decode(payload);
  if (!received.ok()) return false;
  *message = std::move(received->message);
  return true;
}

void WriteState(StateWriter* writer, const Roster& roster) {
  Message message;
  message.type = MessageType::kRoster;
  message.from = Address::Scheduler();
  message.to = Address::Of(ServerId{0});
  message.body = roster;
  WriteState(writer, message);
}

bool ReadState(StateReader* reader, Roster* roster) {
  Message message;
  if (!ReadState(reader, &message)) return false;
  auto* body = std::get_if<Roster>(&message.body);
  if (body == nullptr) return false;
  *roster = std::move(*body);
  return true;
}

}  // namespace soapstone::wire
