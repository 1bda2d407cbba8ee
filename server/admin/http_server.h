// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for operators: a few fixed pages, GET and HEAD only, nothing from the disk, one request a
// connection.
//
//   HttpServer::Options options;
//   options.sockets = {fd};
//   options.pages["/healthz"] = [] { return HttpPage{200, "text/plain", "ok\n"}; };
//   HttpServer server(std::move(options));   // serves until it goes
//
// Few threads, short timeouts, requests without bodies: slow or silent callers cost each other, not the process.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rnnserve {

struct HttpPage {
  int code = 200;
  std::string content_type;
  std::string body;
};

class HttpServer {
 public:
  struct Options {
    // That listen and do not block; outlive the server, who does not close them.
    std::vector<int> sockets;
    // By path. Called on threads of the server, several at once.
    std::map<std::string, std::function<HttpPage()>, std::less<>> pages;
  };

  explicit HttpServer(Options options);
  // Waits for pages being made.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  void Serve();
  int Accept();
  // Of a request's head; "" of one that is too long.
  std::string Answer(std::string_view head) const;

  const Options options_;
  const int stop_fd_;
  std::mutex accepting_;  // one thread waits for callers, the others for it: each caller wakes one
  std::vector<std::thread> threads_;
};

}  // namespace rnnserve
