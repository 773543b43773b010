#include "apps/loop/output_thread.h"

#include <utility>

namespace soapstone::apps {

OutputThread::OutputThread(std::ostream* stream, int fd, OutputThreadOptions options)
    : stream_(stream),
      before_(stream->rdbuf()),
      options_(options),
      writer_(fd, {.name = "standard output", .bytes_max = options.bytes_max}) {
  stream->flush();
  stream->rdbuf(this);
}

OutputThread::~OutputThread() {
  if (stream_->rdbuf() == this) Finish(options_.linger).IgnoreError();
}

absl::Status OutputThread::Finish(Nanos linger) {
  stream_->rdbuf(before_);
  sync();
  return writer_.Finish(linger);
}

OutputThread::int_type OutputThread::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) line_ += traits_type::to_char_type(c);
  if (line_.size() > options_.bytes_max) sync();
  return traits_type::not_eof(c);
}

std::streamsize OutputThread::xsputn(const char* text, std::streamsize count) {
  line_.append(text, static_cast<size_t>(count));
  if (line_.size() > options_.bytes_max) sync();
  return count;
}

int OutputThread::sync() {
  if (!line_.empty()) writer_.Put(std::exchange(line_, {}));
  return 0;
}

}  // namespace soapstone::apps
