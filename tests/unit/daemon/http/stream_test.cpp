#include <doctest/doctest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>

#include "tests/unit/daemon/http/running_server.hpp"

using namespace sessiond;
using namespace sessiond::http;
using namespace sessiond::testing;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

Response streaming(std::function<asio::awaitable<void>(StreamWriter&)> run) {
  Response response;
  response.content_type = "text/event-stream";
  response.headers.emplace_back("Cache-Control", "no-store, no-transform");
  response.stream = std::move(run);
  return response;
}

Router with_stream(std::function<asio::awaitable<void>(StreamWriter&)> run) {
  Router router = plain_routes();
  router.add("GET", "/s", auth::Permission::open,
             [run](Request&) -> asio::awaitable<Result<Response>> { co_return streaming(run); });
  return router;
}

// Waits, without writing, until the client is gone.
asio::awaitable<void> until_gone(StreamWriter& out) {
  asio::steady_timer pause(co_await asio::this_coro::executor);
  while (co_await out.write({})) {
    pause.expires_after(1ms);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

constexpr std::string_view ask = "GET /s HTTP/1.1\r\nHost: localhost\r\n\r\n";

}  // namespace

TEST_CASE("a stream: header at once, pieces as they are written, then the end") {
  RunningServer running(with_stream([](StreamWriter& out) -> asio::awaitable<void> {
    const std::string a = "data: a\n";
    CHECK(co_await out.write({a, "", "\n"}));
    std::vector<std::string_view> many(1000, "0123456789");
    CHECK(co_await out.write(many));
  }));
  Client client(running.port);
  client.send(ask);
  const Answer answer = client.receive();
  CHECK(answer.status == 200);
  CHECK(answer.headers.at("connection") == "close");
  CHECK(!answer.headers.contains("content-length"));
  CHECK(answer.headers.at("cache-control") == "no-store, no-transform");
  std::string expected = "data: a\n\n";
  for (int i = 0; i < 1000; ++i) expected += "0123456789";
  CHECK(client.receive_all() == expected);
}

TEST_CASE("HEAD of a stream does not run it") {
  RunningServer running(with_stream([](StreamWriter&) -> asio::awaitable<void> {
    FAIL("ran");
    co_return;
  }));
  Client client(running.port);
  client.send("HEAD /s HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(client.receive(true).headers.at("content-type") == "text/event-stream");
  CHECK(client.closed());
}

TEST_CASE("a client that goes while nothing is written is noticed") {
  std::promise<bool> ended;
  RunningServer running(with_stream([&](StreamWriter& out) -> asio::awaitable<void> {
    co_await out.write({"x"});
    co_await until_gone(out);
    ended.set_value(co_await out.write({"y"}));
  }));
  Client client(running.port);
  client.send(ask);
  CHECK(client.receive().status == 200);
  client.send("what it says is ignored");
  client.close();
  CHECK(!ended.get_future().get());
  while (running.server->counters().connections_open.load() != 0) std::this_thread::yield();
  CHECK(running.server->counters().streams_open.load() == 0);
}

TEST_CASE("a client that talks without end on a stream is closed") {
  std::promise<void> ended;
  RunningServer running(with_stream([&](StreamWriter& out) -> asio::awaitable<void> {
    co_await until_gone(out);
    ended.set_value();
  }));
  Client client(running.port);
  client.send(ask);
  client.send(std::string(1 << 20, 'x'));
  ended.get_future().get();
}

TEST_CASE("a client that takes nothing is closed after the stall timeout") {
  std::promise<std::size_t> ended;
  ServerOptions options;
  options.stall_timeout = 40ms;
  RunningServer running(with_stream([&](StreamWriter& out) -> asio::awaitable<void> {
                          const std::string piece(1 << 20, 'x');
                          std::size_t written = 0;
                          while (co_await out.write({piece})) ++written;
                          CHECK(!co_await out.write({}));
                          ended.set_value(written);
                        }),
                        options);
  Client client(running.port);
  client.small_receive_buffer();
  client.send(ask);
  CHECK(ended.get_future().get() < 1000);
}

TEST_CASE("a quiet stream outlives every timeout") {
  std::promise<void> go;
  ServerOptions options;
  options.stall_timeout = options.idle_timeout = options.request_timeout = 20ms;
  RunningServer running(with_stream([](StreamWriter& out) -> asio::awaitable<void> {
                          asio::steady_timer pause(co_await asio::this_coro::executor, 200ms);
                          co_await pause.async_wait(asio::use_awaitable);
                          co_await out.write({"late"});
                        }),
                        options);
  Client client(running.port);
  client.send(ask);
  CHECK(client.receive().status == 200);
  CHECK(client.receive_all() == "late");
}

TEST_CASE("what a stream throws ends the connection only") {
  RunningServer running(with_stream([](StreamWriter& out) -> asio::awaitable<void> {
    co_await out.write({"x"});
    throw std::runtime_error("broken");
  }));
  Client client(running.port);
  client.send(ask);
  CHECK(client.receive().status == 200);
  CHECK(client.receive_all() == "x");
  Client other(running.port);
  other.send("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(other.receive().status == 200);
}

TEST_CASE("stop cuts off a stream that does not end by itself") {
  ServerOptions options;
  options.stop_grace = 20ms;
  std::promise<void> ended;
  RunningServer running(with_stream([&](StreamWriter& out) -> asio::awaitable<void> {
                          co_await out.write({"x"});
                          co_await until_gone(out);
                          ended.set_value();
                        }),
                        options);
  Client client(running.port);
  client.send(ask);
  CHECK(client.receive().status == 200);
  running.stop();
  ended.get_future().get();
  running.stopped().get();
}

TEST_CASE("file bodies") {
  TempDir dir;
  const std::string path = dir.path().native() + "/file";
  std::string content(1'000'000, 'x');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + (i * 31 + i / 1000) % 26);
  std::ofstream(path, std::ios::binary) << content;
  Response::FileBody body{.path = path, .inode = store::stat_of(path)->st_ino, .length = content.size()};
  Router router = plain_routes();
  router.add("GET", "/f", auth::Permission::open, [&](Request&) -> asio::awaitable<Result<Response>> {
    Response response;
    response.file = body;
    co_return response;
  });
  RunningServer running(std::move(router));
  Client client(running.port);
  const auto get = [&] {
    client.send("GET /f HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return client.receive();
  };
  CHECK(get().body == content);
  body.offset = 300'001, body.length = 262'144;
  CHECK(get().body == content.substr(300'001, 262'144));
  body.offset = 5, body.length = 0;
  CHECK(get().body.empty());
  client.send("HEAD /f HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(client.receive(true).headers.at("content-length") == "0");
  body.path = dir.path().native() + "/missing";
  CHECK(get().status == 409);
  body.path = dir.path();
  CHECK(get().status == 409);
  // Shorter than promised: the client can tell, since the connection closes early.
  body.path = path;
  body.offset = content.size() - 10, body.length = 20;
  client.send("GET /f HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(client.receive_all().size() < 500);
}
