#include "daemon/http/listener.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/daemon/http/running_server.hpp"

using namespace sessiond;
using namespace sessiond::http;
using namespace sessiond::testing;
namespace asio = boost::asio;

TEST_CASE("a port that is taken is a problem, not an exception") {
  asio::io_context io;
  const auto first = open_tcp(io, {asio::ip::address_v4::loopback(), 0});
  REQUIRE(first);
  const auto second = open_tcp(io, first->local_endpoint());
  REQUIRE(!second);
  CHECK(second.error().detail.contains("in use"));
}

TEST_CASE("the unix socket: only for us, and its peer is admin") {
  TempDir dir;
  const std::string path = dir.path().native() + "/sock";
  RunningServer running(plain_routes(), {}, path);
  struct stat about{};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  CHECK(S_ISSOCK(about.st_mode));
  CHECK((about.st_mode & 0777) == 0600);
  Client client(path);
  client.send("GET /who HTTP/1.1\r\nHost: whatever.example\r\n\r\n");
  CHECK(client.receive().body == "unix:" + std::to_string(::geteuid()) + " admin");
  Client other(running.port);
  other.send("GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string who = other.receive().body;
  CHECK(who.starts_with("127.0.0.1:"));
  CHECK(!who.ends_with("admin"));
  running.on_thread([&] { running.server.reset(); });
  CHECK(!std::filesystem::exists(path));
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("a live socket is not taken over, a dead one is") {
  TempDir dir;
  const std::string path = dir.path().native() + "/sock";
  asio::io_context io;
  {
    auto live = open_unix(io, path);
    REQUIRE(live);
    CHECK(!open_unix(io, path));
    CHECK(std::filesystem::exists(path));
  }
  CHECK(!std::filesystem::exists(path));
  {
    asio::local::stream_protocol::acceptor dead(io, asio::local::stream_protocol::endpoint(path));
  }
  REQUIRE(std::filesystem::exists(path));
  CHECK(open_unix(io, path));
  std::ofstream(path) << "not a socket";
  CHECK(!open_unix(io, path));
  CHECK(std::filesystem::file_size(path) == 12);
  CHECK(!open_unix(io, dir.path().native() + "/none/sock"));
  CHECK(!open_unix(io, dir.path().native() + "/" + std::string(100, 'x')));
}

TEST_CASE("a socket file that is no longer ours is left alone") {
  TempDir dir;
  const std::string path = dir.path().native() + "/sock";
  asio::io_context io;
  {
    auto ours = open_unix(io, path);
    REQUIRE(ours);
    std::filesystem::rename(path, path + ".old");
    std::ofstream(path) << "another's";
  }
  CHECK(std::filesystem::exists(path));
}
