// The bytes of a connection (transport/tcp/stream_channel.h). Input: into what pieces they come,
// and the bytes.
#include <sys/socket.h>

#include <memory>

#include "tests/fuzz/fuzz_input.h"
#include "transport/tcp/stream_channel.h"

namespace soapstone::fuzz {
namespace {

// All of each frame is looked at, so that a view outside its block is seen.
size_t SumOf(const Buffers& frames) {
  size_t sum = 0;
  for (const Buffer& frame : frames) {
    for (size_t i = 0; i < frame.size(); ++i) sum += static_cast<size_t>(frame.data()[i]);
  }
  return sum;
}

void ReceiveAll(FuzzInput input) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  BufferPool pool;
  transport::StreamChannel channel(1, {}, &pool);
  if (!channel.Attach(ends[0], {.self = 2})) abort();
  const size_t piece = size_t{1} + input.Take<uint16_t>();
  size_t taken = 0, given = 0, sum = 0;
  Buffers frames, kept;
  const auto receive = [&] {
    channel.SetReadable();
    while (channel.Receive(&frames)) {
      CHECK(!frames.empty());
      for (const Buffer& frame : frames) given += frame.size();
      sum += SumOf(frames);
      kept.push_back(frames.back());  // later bytes must not be written over it
    }
  };
  while (!input.empty() && !channel.broken()) {
    const std::string_view bytes = input.Bytes(piece);
    taken += bytes.size();
    if (send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
    receive();
  }
  close(ends[1]);
  while (channel.readable()) receive();
  receive();
  CHECK_LE(given, taken);
  CHECK(SumOf(kept) <= sum);
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::ReceiveAll({data, size});
  return 0;
}
