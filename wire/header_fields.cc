#include "wire/header_fields.h"

#include <type_traits>
#include <variant>

namespace soapstone::wire {
namespace {

// Calls visit(field of the body, field of the header) for each that is both.
template <class Visit>
void ForShared(const Push*, const Visit& visit) {
  visit(&Push::bucket, &HeaderFields::bucket);
  visit(&Push::micro_batches, &HeaderFields::micro_batches);
  visit(&Push::micro_batch_count, &HeaderFields::micro_batch_count);
  visit(&Push::samples, &HeaderFields::samples);
  visit(&Push::batch_samples, &HeaderFields::batch_samples);
}
template <class Visit>
void ForShared(const Completion*, const Visit& visit) {
  visit(&Completion::pushes, &HeaderFields::pushes);
}
template <class Visit>
void ForShared(const Pull*, const Visit& visit) {
  visit(&Pull::final, &HeaderFields::final);
}
template <class Visit>
void ForShared(const PullReply*, const Visit& visit) {
  visit(&PullReply::oldest, &HeaderFields::oldest);
  visit(&PullReply::version, &HeaderFields::version);
  visit(&PullReply::checksum, &HeaderFields::checksum);
  visit(&PullReply::final, &HeaderFields::final);
  visit(&PullReply::parked_ns, &HeaderFields::parked_ns);
  visit(&PullReply::queued_ns, &HeaderFields::queued_ns);
}
template <class Visit>
void ForShared(const Save*, const Visit& visit) {
  visit(&Save::bucket, &HeaderFields::bucket);
}
template <class Visit>
void ForShared(const Slices*, const Visit& visit) {
  visit(&Slices::bucket, &HeaderFields::bucket);
  visit(&Slices::checksum, &HeaderFields::checksum);
}
template <class Visit>
void ForShared(const Block*, const Visit& visit) {
  visit(&Block::number, &HeaderFields::bucket);
  visit(&Block::micro_batches, &HeaderFields::micro_batches);
}
template <class Visit>
void ForShared(const Parcel*, const Visit& visit) {
  visit(&Parcel::samples, &HeaderFields::samples);
  visit(&Parcel::checksum, &HeaderFields::checksum);
}
// A body that is the header's has a list of its own above, or this does not compile.
template <class B, class Visit>
void ForShared(const B*, const Visit&) {
  static_assert(!HeaderBody<B>);
}

// A number and an id are the same on the wire.
template <class To, class From>
void Assign(const From& from, To* to) {
  *to = static_cast<To>(from);
}

template <class B>
B Read(const HeaderFields& fields) {
  B body;
  ForShared(&body, [&](auto own, auto shared) { Assign(fields.*shared, &(body.*own)); });
  return body;
}

}  // namespace

HeaderFields HeaderFieldsOf(const Message& message) {
  HeaderFields fields;
  std::visit(
      [&](const auto& body) {
        ForShared(&body, [&](auto own, auto shared) { Assign(body.*own, &(fields.*shared)); });
      },
      message.body);
  return fields;
}

Body BodyFrom(MessageType type, const HeaderFields& fields) {
  switch (type) {
    case MessageType::kPush:
      return Read<Push>(fields);
    case MessageType::kClock:
      return Read<Completion>(fields);
    case MessageType::kPull:
      return Read<Pull>(fields);
    case MessageType::kPullReply:
      return Read<PullReply>(fields);
    case MessageType::kSave:
      return Read<Save>(fields);
    case MessageType::kSlices:
      return Read<Slices>(fields);
    case MessageType::kBlock:
      return Read<Block>(fields);
    default:
      return {};
  }
}

void TakeHeaderFields(const HeaderFields& fields, Body* body) {
  std::visit(
      [&](auto& of) {
        ForShared(&of, [&](auto own, auto shared) { Assign(fields.*shared, &(of.*own)); });
      },
      *body);
}

bool IsInHeader(const Body& body) {
  return std::visit(
      []<class B>(const B&) { return HeaderBody<B> || std::is_same_v<B, std::monostate>; }, body);
}

}  // namespace soapstone::wire
