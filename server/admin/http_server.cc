// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/admin/http_request.h"
#include "server/admin/http_socket.h"

namespace rnnserve {
namespace {

constexpr int kThreads = 16;
constexpr absl::Duration kTimeout = absl::Seconds(2);
constexpr int kNoDescriptorsPauseMs = 100;

std::string_view Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

std::string Text(const HttpPage& page, bool with_body = true) {
  return absl::StrCat("HTTP/1.1 ", page.code, " ", std::string(Reason(page.code)),
                      "\r\nContent-Type: ", page.content_type, "\r\nContent-Length: ", page.body.size(),
                      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                      "Content-Security-Policy: default-src 'self' 'unsafe-inline'\r\n"
                      "Connection: close\r\n",
                      page.code == 405 ? "Allow: GET, HEAD\r\n" : "", "\r\n", with_body ? page.body : "");
}

std::string Refusal(int code, std::string why) { return Text({code, "text/plain", std::move(why)}); }

HttpPage Made(const std::function<HttpPage()>& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return {503, "text/plain", "no memory left to make it\n"};
  }
}

}  // namespace

HttpServer::HttpServer(Options options) : options_(std::move(options)), stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  for (int k = 0; k < kThreads; ++k) threads_.emplace_back([this] { Serve(); });
}

HttpServer::~HttpServer() {
  eventfd_write(stop_fd_, 1);
  for (std::thread& thread : threads_) thread.join();
  close(stop_fd_);
}

void HttpServer::Serve() {
  for (int fd; (fd = Accept()) >= 0;) {
    HttpSocket caller(fd, stop_fd_, kTimeout);
    const HttpSocket::Head head = caller.ReadHead();
    if (!head.is_whole && !head.is_too_long) continue;
    if (caller.Write(Answer(head.is_whole ? head.text : ""))) caller.Finish();
  }
}

// The next caller; -1: the server goes.
int HttpServer::Accept() {
  const std::lock_guard lock(accepting_);
  std::vector<pollfd> wait = {{stop_fd_, POLLIN, 0}};
  for (const int socket : options_.sockets) wait.push_back({socket, POLLIN, 0});
  for (int pause_ms = -1;; pause_ms = -1) {
    poll(wait.data(), wait.size(), -1);
    if (wait[0].revents != 0) return -1;
    for (size_t k = 1; k < wait.size(); ++k) {
      if (wait[k].revents == 0) continue;
      const int fd = accept4(wait[k].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) return fd;
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) pause_ms = kNoDescriptorsPauseMs;
    }
    if (pause_ms > 0) poll(wait.data(), 1, pause_ms);
  }
}

std::string HttpServer::Answer(std::string_view head) const {
  if (head.empty()) return Refusal(431, "the request's head is too long\n");
  std::string_view line = head.substr(0, head.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::optional<HttpRequest> request = ParseRequestLine(line);
  if (!request) return Refusal(400, "no HTTP/1 request\n");
  const auto page = options_.pages.find(request->path);
  const bool with_body = request->method != "HEAD";
  if (page == options_.pages.end()) return Text({404, "text/plain", "no such page\n"}, with_body);
  if (request->method != "GET" && with_body) return Refusal(405, "GET and HEAD only\n");
  return Text(Made(page->second), with_body);
}

}  // namespace rnnserve
