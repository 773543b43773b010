// HttpServer: a few pages that say how a process is. It reads only: no request changes anything.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace soapstone::status {

struct HttpPage {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpOptions {
  std::string address;  // "127.0.0.1:9400"; "*:9400": all interfaces; port 0: a free one
  // Host names that it may be called by, beside addresses and localhost.
  std::vector<std::string> names;
  absl::Duration request_patience = absl::Seconds(30);
};

// One thread of its own serves all connections. Bounds: 64 connections, 16 from one address, 32 KiB
// each, 10 s of idleness, and `request_patience` from the beginning, or the end of the last answer,
// to the end of the next, of which only 2 s are left where more than 48 connections are open: who
// sends a byte now and then keeps nobody out for long. GET and HEAD alone (405);
// a Host that is no address, not localhost and none of `names` is 421: a page of another site
// cannot have a browser read this one.
class HttpServer {
 public:
  // The page of a path, null: there is none (404). Called on the server's thread.
  using Handler = std::function<std::unique_ptr<HttpPage>(const std::string& path)>;

  // Errors: InvalidArgument: `address` is none, or cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpOptions options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "127.0.0.1:41234", or "0.0.0.0:9400".
  const std::string& address() const { return address_; }

 private:
  class Connections;
  struct Daemon;
  explicit HttpServer(std::unique_ptr<Daemon> daemon);

  std::unique_ptr<Daemon> daemon_;
  std::string address_;
};

// Whether a request with this Host header is meant for a server with these names.
bool IsHostAllowed(const std::string& host, const std::vector<std::string>& names);

}  // namespace soapstone::status
