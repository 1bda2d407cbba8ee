// SPDX-License-Identifier: Apache-2.0
#include "tests/server/store/redis_process.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

namespace rnnserve {

bool HasRedis() {
  static const bool has = system("command -v redis-server >/dev/null 2>&1") == 0;  // NOLINT: a constant
  return has;
}

namespace {

int AnyFreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

int FreePort() {
  while (true) {
    if (const int port = AnyFreePort(); port + 10'000 < 65'536) return port;
  }
}

RedisProcess::RedisProcess(std::vector<std::string> arguments, int port)
    : arguments_(std::move(arguments)), port_(port == 0 ? FreePort() : port) {
  std::string made = (std::filesystem::temp_directory_path() / "redis-XXXXXX").string();
  EXPECT_NE(mkdtemp(made.data()), nullptr);
  folder_ = made;
  Start();
}

RedisProcess::~RedisProcess() {
  Kill();
  std::filesystem::remove_all(folder_);
}

void RedisProcess::Start() {
  std::vector<std::string> words = arguments_;  // the file of a configuration comes first
  words.insert(words.begin(), "redis-server");
  const std::string port = std::to_string(port_);
  const char* const ours[] = {"--port", port.c_str(), "--bind", "127.0.0.1", "--save", "", "--dir", folder_.c_str()};
  words.insert(words.end(), std::begin(ours), std::end(ours));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  int output[2];
  ASSERT_EQ(pipe(output), 0);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(output[1], 1);
    close(output[0]);
    execvp(argv[0], argv.data());
    _exit(1);
  }
  close(output[1]);
  const std::unique_ptr<FILE, int (*)(FILE*)> log(fdopen(output[0], "r"), fclose);
  std::string told;
  char line[512];
  while (fgets(line, sizeof line, log.get()) != nullptr) {
    told += line;
    if (std::string(line).find("eady to accept connections") != std::string::npos) return;
    if (std::string(line).find("monitor master") != std::string::npos) return;  // a Sentinel
  }
  FAIL() << "redis-server did not start: " << told;
}

void RedisProcess::Signal(int signal) const { EXPECT_EQ(kill(pid_, signal), 0); }

void RedisProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

RedisReply RedisProcess::Ask(const std::vector<std::string>& words) const {
  const std::unique_ptr<redisContext, void (*)(redisContext*)> context(redisConnect("127.0.0.1", port_), redisFree);
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  return RedisReply(static_cast<redisReply*>(
      redisCommandArgv(context.get(), static_cast<int>(words.size()), texts.data(), sizes.data())));
}

std::string RedisProcess::AskText(const std::vector<std::string>& words) const {
  const RedisReply reply = Ask(words);
  if (reply == nullptr) return "(no answer)";
  if (reply->type == REDIS_REPLY_INTEGER) return std::to_string(reply->integer);
  return reply->type == REDIS_REPLY_NIL ? "(nil)" : std::string(ReplyText(*reply));
}

}  // namespace rnnserve
