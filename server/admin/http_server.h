// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for operators: a few fixed pages, GET and HEAD only, nothing from the disk.
//
//   HttpServer::Options options;
//   options.listen = "127.0.0.1:9464";
//   options.pages["/healthz"] = [] { return HttpPage{200, "text/plain", "ok\n"}; };
//   auto server = HttpServer::Start(std::move(options)).value();
//
// Few threads, short timeouts, requests without bodies: slow or silent callers cost each other, not the process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace rnnserve {

struct HttpPage {
  int code = 200;
  std::string content_type;
  std::string body;
};

class HttpServer {
 public:
  struct Options {
    // host:port; port 0 picks a free one.
    std::string listen;
    // Functions that make pages, by path. The server's threads call them, several at once.
    std::map<std::string, std::function<HttpPage()>, std::less<>> pages;
  };

  // Listening when it returns. UNAVAILABLE if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);
  // Waits for pages being made.
  ~HttpServer();

  int port() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rnnserve
