#include "daemon/cli/token_store.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "daemon/cli/client.hpp"
#include "daemon/serve/state_lock.hpp"
#include "store/files.hpp"
#include "tests/unit/store/child.hpp"
#include "tests/unit/temp_dir.hpp"

using namespace sessiond;
using namespace sessiond::cli;
using sessiond::testing::Child;
using sessiond::testing::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t now = 1'795'298'400'000;

config::Config config_for(const fs::path& state_dir) {
  config::Config config;
  config.state_dir = state_dir.native();
  config.listen.unix = (state_dir / "sessiond.sock").native();
  return config;
}

// A process that takes one connection, reads what comes, and answers with the same bytes whatever was asked.
class OneAnswer {
 public:
  OneAnswer(const fs::path& socket, const std::string& answer)
      : fd_(store::Fd(listen_on(socket))), child_([this, answer] { return serve(answer); }) {}

  int wait() { return child_.wait(); }  // 0: it was asked as it should be

 private:
  static int listen_on(const fs::path& socket) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(static_cast<char*>(address.sun_path), socket.c_str(), socket.native().size() + 1);
    sockaddr_storage any{};
    std::memcpy(&any, &address, sizeof address);
    REQUIRE(::bind(fd, static_cast<const sockaddr*>(static_cast<const void*>(&any)), sizeof address) == 0);
    REQUIRE(::listen(fd, 4) == 0);
    return fd;
  }
  int serve(const std::string& answer) const {
    const int connection = ::accept(fd_.get(), nullptr, nullptr);
    std::string request;
    char buffer[4096];
    while (!request.contains("\r\n\r\n")) {
      const ssize_t n = ::read(connection, buffer, sizeof buffer);
      if (n <= 0) return 1;
      request.append(buffer, static_cast<std::size_t>(n));
    }
    if (!request.contains("\r\nHost: localhost\r\n") || !request.contains("\r\nConnection: close\r\n")) return 2;
    // In single bytes: an answer comes as it comes.
    for (const char c : answer)
      if (::send(connection, &c, 1, MSG_NOSIGNAL) != 1) return 3;
    ::close(connection);
    return 0;
  }

  store::Fd fd_;
  Child child_;
};

std::string http_answer(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE("without a daemon tokens.json is written itself") {
  TempDir dir;
  const fs::path state = dir / "state";
  TokenStore store(config_for(state));
  for (const auto& problem : {store.list().error(), store.create({.role = "viewer"}, now).error(),
                              store.rotate("zzzzzzzz", 0, now).error(), store.revoke("zzzzzzzz").error()}) {
    CHECK(problem.detail.contains("there is no state directory " + state.native()));
    CHECK(problem.detail.contains("SESSIOND_STATE_DIR"));
  }
  CHECK_FALSE(fs::exists(state));  // no command makes one by the way
  fs::create_directory(state);
  CHECK(store.list().value().empty());

  const auto token = store.create({.role = "bridge", .agents = {"main"}, .channel = "slack"}, now);
  REQUIRE(token);
  CHECK(auth::id_of_token(*token));
  struct stat status{};
  REQUIRE(::stat((state / "tokens.json").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  const auto listed = store.list();
  REQUIRE(listed);
  REQUIRE(listed->size() == 1);
  CHECK((*listed)[0].id == *auth::id_of_token(*token));
  CHECK((*listed)[0].channel == "slack");
  const auto tokens = auth::Tokens::load(state / "tokens.json");
  REQUIRE(tokens);
  CHECK((*tokens)->authenticate("Bearer " + *token, now));

  CHECK(store.rotate("zzzzzzzz", 0, now).error().code == Code::not_found);
  CHECK(store.rotate("../../etc", 0, now).error().code == Code::not_found);
  const auto next = store.rotate((*listed)[0].id, 1000, now);
  REQUIRE(next);
  const auto both = auth::Tokens::load(state / "tokens.json");
  REQUIRE(both);
  CHECK((*both)->authenticate("Bearer " + *next, now + 1000).value().channel == "slack");
  CHECK((*both)->authenticate("Bearer " + *token, now + 999));
  CHECK_FALSE((*both)->authenticate("Bearer " + *token, now + 1000));
  REQUIRE(store.revoke(std::string(*auth::id_of_token(*next))));

  CHECK(store.revoke("zzzzzzzz").error().code == Code::not_found);
  CHECK(store.revoke("../../etc").error().code == Code::not_found);
  REQUIRE(store.revoke((*listed)[0].id));
  CHECK(store.list().value().empty());
}

TEST_CASE("a state directory in use whose socket does not answer is told, not written") {
  TempDir dir;
  const auto lock = serve::StateLock::acquire(dir.path(), "serve");
  REQUIRE(lock);
  TokenStore store(config_for(dir.path()));
  const auto token = store.create({.role = "viewer"}, now);
  REQUIRE_FALSE(token);
  CHECK(token.error().detail.contains("is in use by pid " + std::to_string(::getpid())));
  CHECK(token.error().detail.contains("could not be asked"));
  CHECK_FALSE(store.revoke("zzzzzzzz"));
  CHECK(store.list());
  CHECK_FALSE(fs::exists(dir / "tokens.json"));
}

TEST_CASE("a damaged tokens.json is never written over") {
  TempDir dir;
  REQUIRE(store::replace_file(dir / "tokens.json", "{\"tokens\":"));
  TokenStore store(config_for(dir.path()));
  CHECK_FALSE(store.create({.role = "viewer"}, now));
  CHECK_FALSE(store.list());
  CHECK(store::read_file(dir / "tokens.json").value() == "{\"tokens\":");
}

TEST_CASE("the daemon is asked when it answers") {
  TempDir dir;
  TokenStore store(config_for(dir.path()));
  SUBCASE("create") {
    OneAnswer daemon(dir / "sessiond.sock", http_answer(201, R"({"id":"abcd1234","token":"sd_abcd1234_x"})"));
    CHECK(store.create({.role = "viewer"}, now).value() == "sd_abcd1234_x");
    CHECK(daemon.wait() == 0);
    CHECK_FALSE(fs::exists(dir / "tokens.json"));
  }
  SUBCASE("list") {
    OneAnswer daemon(
        dir / "sessiond.sock",
        http_answer(200,
                    R"({"data":[{"id":"abcd1234","role":"bridge","agents":["main"],"createdAt":5,"lastUsed":7}]})"));
    const auto tokens = store.list();
    REQUIRE(tokens);
    REQUIRE(tokens->size() == 1);
    CHECK((*tokens)[0].role == auth::Role::bridge);
    CHECK((*tokens)[0].agents == std::vector<std::string>{"main"});
    CHECK((*tokens)[0].created_at == 5);
    CHECK((*tokens)[0].last_used_at == 7);
  }
  SUBCASE("rotate") {
    OneAnswer daemon(dir / "sessiond.sock", http_answer(201, R"({"id":"efgh5678","token":"sd_efgh5678_x"})"));
    CHECK(store.rotate("abcd1234", 0, now).value() == "sd_efgh5678_x");
    CHECK(daemon.wait() == 0);
  }
  SUBCASE("revoke, of a token that is not there") {
    OneAnswer daemon(dir / "sessiond.sock",
                     http_answer(404, R"({"code":"not_found","detail":"there is no token zzzzzzzz"})"));
    const auto revoked = store.revoke("zzzzzzzz");
    REQUIRE_FALSE(revoked);
    CHECK(revoked.error().code == Code::not_found);
    CHECK(revoked.error().detail == "there is no token zzzzzzzz");
  }
  SUBCASE("revoke") {
    OneAnswer daemon(dir / "sessiond.sock", "HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(store.revoke("abcd1234"));
  }
  SUBCASE("a refusal says who should ask") {
    OneAnswer daemon(dir / "sessiond.sock", http_answer(401, R"({"detail":"this needs a token"})"));
    CHECK(store.list().error().detail.contains("as the user that the daemon runs as"));
  }
  SUBCASE("garbage, cut answers and silence are errors, never an empty list") {
    for (const std::string& answer :
         {std::string(), std::string("garbage"), http_answer(200, "{"), http_answer(200, R"({"data":{}})"),
          http_answer(200, R"({"data":[{"role":"boss"}]})"), http_answer(200, R"({"data":[]})").substr(0, 80),
          std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")}) {
      fs::remove(dir / "sessiond.sock");
      OneAnswer daemon(dir / "sessiond.sock", answer);
      INFO(answer);
      CHECK_FALSE(store.list());
    }
  }
}

TEST_CASE("who does not answer in time is not waited for, and nobody else's work is done") {
  TempDir dir;
  const fs::path socket = dir / "sessiond.sock";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(static_cast<char*>(address.sun_path), socket.c_str(), socket.native().size() + 1);
  sockaddr_storage any{};
  std::memcpy(&any, &address, sizeof address);
  REQUIRE(::bind(fd, static_cast<const sockaddr*>(static_cast<const void*>(&any)), sizeof address) == 0);
  REQUIRE(::listen(fd, 4) == 0);
  const auto late = call_daemon(socket, "GET", "/", "", {.timeout = std::chrono::milliseconds(50)});
  REQUIRE_FALSE(late);
  CHECK_FALSE(late.error().nobody_there);
  CHECK(late.error().detail.contains("no answer in time"));
  ::close(fd);
  // Its socket file stays, as after a kill -9.
  const auto gone = call_daemon(socket, "GET", "/", "");
  REQUIRE_FALSE(gone);
  CHECK(gone.error().nobody_there);
}

TEST_CASE("replies are parsed strictly") {
  CHECK(parse_reply("HTTP/1.1 200 OK\r\n\r\nbody").value().body == "body");
  CHECK(parse_reply("HTTP/1.1 200 OK\r\ncontent-LENGTH:  2 \r\n\r\nbody").value().body == "bo");
  for (const std::string_view text :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"}) {
    INFO(text);
    CHECK_FALSE(parse_reply(text));
  }
}

TEST_CASE("a wish is written as the API reads it") {
  auth::NewToken wish{.role = "bridge",
                      .agents = {"main", "codex"},
                      .key_prefix = "agent:\"x\"",
                      .channel = "slack",
                      .note = "n",
                      .expires_at = now + 1};
  const auto read = auth::parse_new_token(to_json(wish), now);
  REQUIRE(read);
  CHECK(read->agents == wish.agents);
  CHECK(read->key_prefix == wish.key_prefix);
  CHECK(read->expires_at == wish.expires_at);
  CHECK(to_json(auth::NewToken{.role = "viewer"}) == R"({"role":"viewer"})");
}
