// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_server.h"

#include <civetweb.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/admin/gzip.h"
#include "server/admin/http_library.h"

namespace rnnserve {
namespace {

constexpr char kThreads[] = "16";
constexpr char kRequestTimeoutMs[] = "2000";
constexpr std::chrono::milliseconds kKnockInterval(20);
// Below it headers and the work outweigh what is saved.
constexpr size_t kLeastCompressed = 1024;

std::string_view Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

void Send(mg_connection* connection, const HttpPage& page, bool with_body, std::string_view more_headers = "") {
  std::string text = absl::StrCat("HTTP/1.1 ", page.code, " ", std::string(Reason(page.code)),
                                  "\r\nContent-Type: ", page.content_type, "\r\nContent-Length: ", page.body.size(),
                                  "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                                  "Content-Security-Policy: default-src 'self' 'unsafe-inline'\r\n"
                                  "Connection: close\r\n",
                                  absl::string_view(more_headers.data(), more_headers.size()), "\r\n");
  if (with_body) text += page.body;
  mg_write(connection, text.data(), text.size());
}

// As callers take it: compressed for those that ask.
void SendPage(mg_connection* connection, HttpPage page, bool with_body) {
  const char* accepted = mg_get_header(connection, "Accept-Encoding");
  std::string headers = "Vary: Accept-Encoding\r\n";
  if (page.body.size() >= kLeastCompressed && accepted != nullptr && AcceptsGzip(accepted)) {
    if (std::string compressed = Gzip(page.body); !compressed.empty()) {
      page.body = std::move(compressed);
      headers += "Content-Encoding: gzip\r\n";
    }
  }
  Send(connection, page, with_body, headers);
}

// %41 is A, and %00 a byte of the path like any other. Nothing for what is no path.
std::optional<std::string> Decoded(std::string_view path) {
  std::string decoded;
  while (!path.empty()) {
    if (path[0] != '%') {
      decoded += path[0];
      path.remove_prefix(1);
      continue;
    }
    uint8_t byte = 0;
    if (path.size() < 3) return std::nullopt;
    const auto [end, error] = std::from_chars(path.data() + 1, path.data() + 3, byte, 16);
    if (error != std::errc() || end != path.data() + 3) return std::nullopt;
    decoded += static_cast<char>(byte);
    path.remove_prefix(3);
  }
  return decoded;
}

// civetweb takes "8080" for all addresses and "host:8080" for one.
std::string ListeningPort(std::string_view listen) {
  constexpr std::string_view kAll = "0.0.0.0:";
  return std::string(listen.starts_with(kAll) ? listen.substr(kAll.size()) : listen);
}

// Connects to a server of this process and closes the connection.
void Knock(const std::string& listen, int port) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  const std::string bare = host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(bare.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return;
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    if (connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno == EINPROGRESS) {
      pollfd ready = {fd, POLLOUT, 0};
      poll(&ready, 1, kKnockInterval.count());
    }
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

struct HttpServer::Impl {
  static int Handle(mg_connection* connection) {
    const mg_request_info* request = mg_get_request_info(connection);
    const auto* impl = static_cast<const Impl*>(request->user_data);
    const std::string_view method = request->request_method;
    // As it was sent: civetweb's own decoding ends at a NUL, and takes /metrics/.. for /.
    const std::optional<std::string> path = Decoded(request->local_uri_raw != nullptr ? request->local_uri_raw : "%");
    const auto page = path ? impl->options.pages.find(*path) : impl->options.pages.end();
    if (page == impl->options.pages.end()) {
      Send(connection, {404, "text/plain", "no such page\n"}, method != "HEAD");
    } else if (method != "GET" && method != "HEAD") {
      Send(connection, {405, "text/plain", "GET and HEAD only\n"}, true, "Allow: GET, HEAD\r\n");
    } else {
      SendPage(connection, page->second(), method == "GET");
    }
    return 1;  // answered, whatever it was: civetweb serves no files
  }

  static int Silent(const mg_connection*, const char*) { return 1; }

  Options options;
  mg_context* context = nullptr;
  int port = 0;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options) {
  InitHttpLibrary();
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  mg_callbacks callbacks = {};
  callbacks.begin_request = Impl::Handle;
  callbacks.log_message = Impl::Silent;
  const std::string port = ListeningPort(impl->options.listen);
  // A target may name any host, as in GET http://host:9464/metrics; civetweb closes the connection if the port differs.
  const char* settings[] = {"listening_ports",
                            port.c_str(),
                            "num_threads",
                            kThreads,
                            "request_timeout_ms",
                            kRequestTimeoutMs,
                            "enable_keep_alive",
                            "no",
                            "decode_url",
                            "no",
                            "enable_auth_domain_check",
                            "no",
                            nullptr};
  impl->context = mg_start(&callbacks, impl.get(), settings);
  if (impl->context == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", impl->options.listen, " for HTTP: is the address right, and the port free?"));
  }
  mg_server_port bound = {};
  if (mg_get_server_ports(impl->context, 1, &bound) > 0) impl->port = bound.port;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  // civetweb's listener checks for mg_stop every two seconds and at each new connection: connect, so that it stops now.
  std::future<void> stopped = std::async(std::launch::async, [this] { mg_stop(impl_->context); });
  do {
    Knock(impl_->options.listen, impl_->port);
  } while (stopped.wait_for(kKnockInterval) != std::future_status::ready);
}

int HttpServer::port() const { return impl_->port; }

}  // namespace rnnserve
