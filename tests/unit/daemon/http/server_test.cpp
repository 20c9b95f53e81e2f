#include "daemon/http/server.hpp"

#include <doctest/doctest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tests/unit/daemon/http/running_server.hpp"

using namespace sessiond;
using namespace sessiond::http;
using namespace sessiond::testing;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

constexpr std::string_view hello = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

// A handler that waits until the test lets it go.
struct Gate {
  std::shared_ptr<std::promise<void>> entered = std::make_shared<std::promise<void>>();
  std::shared_ptr<asio::steady_timer> timer;

  Handler handler() {
    return [this](Request&) -> asio::awaitable<Result<Response>> {
      timer = std::make_shared<asio::steady_timer>(co_await asio::this_coro::executor,
                                                   asio::steady_timer::time_point::max());
      entered->set_value();
      co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
      Response response;
      response.body = "done";
      co_return response;
    };
  }
};

}  // namespace

TEST_CASE("a reply and the fields every reply has") {
  RunningServer running(plain_routes());
  Client client(running.port);
  client.send(hello);
  const Answer answer = client.receive();
  CHECK(answer.status == 200);
  CHECK(answer.body == "hello");
  CHECK(answer.headers.at("content-type") == "text/plain");
  CHECK(answer.headers.at("content-length") == "5");
  CHECK(answer.headers.at("cache-control") == "no-store");
  CHECK(answer.headers.at("date").ends_with(" GMT"));
  CHECK(!answer.headers.at("x-request-id").empty());
  CHECK(!answer.headers.contains("connection"));
}

TEST_CASE("request ids are echoed when they are harmless, else made") {
  RunningServer running(plain_routes());
  Client client(running.port);
  const auto id = [&](std::string_view sent) {
    client.send("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + std::string(sent) + "\r\n\r\n");
    return client.receive().headers.at("x-request-id");
  };
  CHECK(id("a.B_c-1") == "a.B_c-1");
  CHECK(id(std::string(128, 'a')) == std::string(128, 'a'));
  CHECK(id(std::string(129, 'a')) != std::string(129, 'a'));
  CHECK(id("a b") != "a b");
  CHECK(id("") != id(""));
}

TEST_CASE("a request that comes byte by byte") {
  RunningServer running(plain_routes());
  Client client(running.port);
  for (const char c : std::string_view("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                                       "5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nT: x\r\n\r\n")) {
    client.send({&c, 1});
  }
  CHECK(client.receive().body == "hello!");
}

TEST_CASE("pipelined requests are answered in order, on one connection") {
  RunningServer running(plain_routes());
  Client client(running.port);
  std::string all;
  for (int i = 0; i < 500; ++i) {
    const std::string body = std::to_string(i);
    all +=
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  client.send(all);
  for (int i = 0; i < 500; ++i) CHECK(client.receive().body == std::to_string(i));
  CHECK(running.server->counters().connections_total.load() == 1);
}

TEST_CASE("a big body there and back") {
  RunningServer running(plain_routes());
  Client client(running.port);
  std::string body(8 << 20, 'x');
  for (std::size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>(i);
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  client.send(body);
  CHECK(client.receive().body == body);
}

TEST_CASE("keep-alive and close") {
  RunningServer running(plain_routes());
  SUBCASE("HTTP/1.1 until it says close") {
    Client client(running.port);
    client.send("GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    CHECK(client.receive().headers.at("connection") == "close");
    CHECK(client.closed());
  }
  SUBCASE("HTTP/1.0 closes") {
    Client client(running.port);
    client.send("GET /hello HTTP/1.0\r\n\r\n");
    CHECK(client.receive().body == "hello");
    CHECK(client.closed());
  }
  SUBCASE("HTTP/1.0 with keep-alive") {
    Client client(running.port);
    client.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(client.receive().headers.at("connection") == "keep-alive");
    client.send(hello);
    CHECK(client.receive().status == 200);
  }
}

TEST_CASE("a refusal is told in full and the connection closes, whatever else was sent") {
  RunningServer running(plain_routes());
  for (const std::string_view bad : {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", "GET /hello HTTP/1.1\r\n\r\n", "nonsense\r\n",
                                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n"}) {
    Client client(running.port);
    client.send(std::string(bad) + std::string(100'000, 'x'));
    const Answer answer = client.receive();
    CHECK(answer.status == 400);
    CHECK(answer.headers.at("content-type") == "application/problem+json");
    CHECK(answer.headers.at("connection") == "close");
    CHECK(answer.headers.contains("x-request-id"));
    client.send(hello);
    client.close();
  }
}

TEST_CASE("Host must be ours") {
  ServerOptions options;
  options.hosts = {"localhost", "sessions.example"};
  RunningServer running(plain_routes(), options);
  const auto status = [&](std::string_view host) {
    Client client(running.port);
    client.send("GET /hello HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    return client.receive().status;
  };
  CHECK(status("localhost") == 200);
  CHECK(status("LOCALHOST:1") == 200);
  CHECK(status("127.0.0.1:7433") == 200);
  CHECK(status("sessions.example") == 200);
  CHECK(status("evil.example") == 421);
  CHECK(status("127.0.0.2") == 421);
  CHECK(status("localhost.evil.example") == 421);
  CHECK(status("[::1]") == 421);
}

TEST_CASE("limits are told, the length before the body comes") {
  ServerOptions options;
  options.read.body_bytes = 100;
  RunningServer running(plain_routes(), options);
  const auto status = [&](const std::string& bytes) {
    Client client(running.port);
    client.send(bytes);
    return client.receive().status;
  };
  const std::string start = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  CHECK(status(start + "Content-Length: 101\r\nExpect: 100-continue\r\n\r\n") == 413);
  CHECK(status(start + "Transfer-Encoding: chunked\r\n\r\n65\r\nx") == 413);
  CHECK(status(start + "X: " + std::string(20'000, 'x')) == 431);
  CHECK(status("GET /" + std::string(9'000, 'x')) == 414);
}

TEST_CASE("Expect: 100-continue") {
  RunningServer running(plain_routes());
  Client client(running.port);
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  client.send(head);
  CHECK(client.receive().status == 100);
  client.send("ok");
  CHECK(client.receive().body == "ok");
  client.send(head + "ok");  // did not wait: no need to tell it
  CHECK(client.receive().status == 201);
}

TEST_CASE("HEAD, OPTIONS and 405 over the wire") {
  RunningServer running(plain_routes());
  Client client(running.port);
  client.send("HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer head = client.receive(true);
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") == "5");
  client.send("HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(client.receive(true).status == 404);
  client.send("OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer options = client.receive();
  CHECK(options.status == 204);
  CHECK(options.headers.at("allow") == "GET, HEAD, OPTIONS");
  CHECK(!options.headers.contains("content-length"));
  client.send("DELETE /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer refused = client.receive();
  CHECK(refused.status == 405);
  CHECK(refused.headers.at("allow") == "GET, HEAD, OPTIONS");
}

TEST_CASE("a handler cannot be made to write header lines") {
  Router router = plain_routes();
  router.add("GET", "/x", auth::Permission::open, [](Request&) -> asio::awaitable<Result<Response>> {
    Response response;
    response.headers.emplace_back("X-Name", "a\r\nSet-Cookie: b");
    response.headers.emplace_back("Cache-Control", "no-cache");
    co_return response;
  });
  RunningServer running(std::move(router));
  Client client(running.port);
  client.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer answer = client.receive();
  CHECK(answer.headers.at("x-name") == "a  Set-Cookie: b");
  CHECK(answer.headers.at("cache-control") == "no-cache");
}

TEST_CASE("a request that does not come in time is 408, an idle connection just closes") {
  ServerOptions options;
  options.request_timeout = 40ms;
  options.idle_timeout = 40ms;
  RunningServer running(plain_routes(), options);
  SUBCASE("in the header") {
    Client client(running.port);
    client.send("GET /hello HTTP/1.1\r\nHost:");
    const Answer answer = client.receive();
    CHECK(answer.status == 408);
    CHECK(answer.headers.at("connection") == "close");
  }
  SUBCASE("in the body") {
    Client client(running.port);
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
    CHECK(client.receive().status == 408);
  }
  SUBCASE("after 100 Continue") {
    Client client(running.port);
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    CHECK(client.receive().status == 100);
    CHECK(client.receive().status == 408);
  }
  SUBCASE("idle from the start") {
    Client client(running.port);
    CHECK(client.closed());
  }
  SUBCASE("idle after a request") {
    Client client(running.port);
    client.send(hello);
    CHECK(client.receive().status == 200);
    CHECK(client.closed());
  }
}

TEST_CASE("the head has a deadline of its own, which bytes that trickle in do not move") {
  ServerOptions options;
  options.header_timeout = 40ms;
  options.request_timeout = 1h;
  RunningServer running(plain_routes(), options);
  const auto wait_past_deadline = [&running] {  // of a head begun later than all that was sent before
    Client late(running.port);
    late.send("G");
    CHECK(late.receive().status == 408);
  };
  SUBCASE("trickling") {
    Client client(running.port);
    std::thread trickle([&] {
      client.send("GET /hello HTTP/1.1\r\nX: ");
      for (int i = 0; i < 200; ++i) {
        client.send("x");
        std::this_thread::sleep_for(1ms);
      }
    });
    CHECK(client.receive().status == 408);
    trickle.join();
  }
  SUBCASE("the body may take longer") {
    Client client(running.port);
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    CHECK(client.receive().status == 100);
    wait_past_deadline();
    client.send("ok");
    CHECK(client.receive().body == "ok");
  }
  SUBCASE("between requests there is none") {
    Client client(running.port);
    client.send(hello);
    CHECK(client.receive().status == 200);
    wait_past_deadline();
    client.send(hello);
    CHECK(client.receive().status == 200);
  }
}

TEST_CASE("a client that takes nothing of its reply is let go") {
  Router router = plain_routes();
  router.add("GET", "/huge", auth::Permission::open, [](Request&) -> asio::awaitable<Result<Response>> {
    Response response;
    response.body.assign(64 << 20, 'x');
    co_return response;
  });
  ServerOptions options;
  options.stall_timeout = 40ms;
  RunningServer running(std::move(router), options);
  Client client(running.port);
  client.send("GET /huge HTTP/1.1\r\nHost: localhost\r\n\r\n");
  while (running.server->counters().connections_open.load() != 0 ||
         running.server->counters().connections_total.load() == 0) {
    std::this_thread::yield();
  }
  CHECK(running.server->counters().bytes_out.load() < (64U << 20));
}

TEST_CASE("more connections than allowed are turned away, and there is room again later") {
  ServerOptions options;
  options.connections = 2;
  RunningServer running(plain_routes(), options);
  auto first = std::make_unique<Client>(running.port);
  Client second(running.port);
  first->send(hello);
  CHECK(first->receive().status == 200);
  second.send(hello);
  CHECK(second.receive().status == 200);
  Client third(running.port);
  const Answer answer = third.receive();
  CHECK(answer.status == 503);
  CHECK(answer.headers.at("retry-after") == "1");
  CHECK(answer.headers.contains("date"));
  CHECK(answer.body.contains("\"code\":\"degraded\""));
  CHECK(third.closed());
  first.reset();
  while (running.server->counters().connections_open.load() == 2) std::this_thread::yield();
  Client fourth(running.port);
  fourth.send(hello);
  CHECK(fourth.receive().status == 200);
  CHECK(running.server->counters().connections_refused.load() == 1);
}

TEST_CASE(
    "one address gets so many connections, streams that were handed over among them; a unix socket has no address") {
  TempDir dir;
  ServerOptions options;
  options.connections_per_address = 2;
  options.count_loopback = true;
  TakenSocket taken;
  Router router = plain_routes();
  router.add("GET", "/stream", auth::Permission::open, [&taken](Request&) -> asio::awaitable<Result<Response>> {
    Response response;
    response.take_over = [&taken](TakenSocket socket) { taken = std::move(socket); };
    co_return response;
  });
  RunningServer running(std::move(router), options, dir.path().native() + "/s");
  const auto status = [&](Client& client, std::string_view bytes = hello) {
    client.send(bytes);
    return client.receive(true).status;
  };
  Client stream(running.port);
  CHECK(status(stream, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n") == 200);
  auto second = std::make_unique<Client>(running.port);
  CHECK(status(*second) == 200);
  Client third(running.port);
  const Answer answer = third.receive();
  CHECK(answer.status == 503);
  CHECK(answer.headers.contains("retry-after"));
  CHECK(answer.body.contains("limits.connectionsPerAddress"));
  CHECK(third.closed());
  Client local(dir.path().native() + "/s");
  CHECK(status(local) == 200);
  CHECK(running.server->counters().connections_refused.load() == 1);

  running.on_thread([&] { taken = {}; });  // the stream ends: its place is free
  Client fourth(running.port);
  CHECK(status(fourth) == 200);
  running.on_thread([&] {
    ServerOptions without = options;
    without.count_loopback = false;
    running.server->reconfigure(without);
  });
  Client fifth(running.port);
  CHECK(status(fifth) == 200);
}

TEST_CASE("counters") {
  RunningServer running(plain_routes());
  Client client(running.port);
  client.send(hello);
  client.receive();
  client.send("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.receive();
  const Counters& counters = running.server->counters();
  CHECK(counters.by_class[2].load() == 1);
  CHECK(counters.by_class[4].load() == 1);
  std::uint64_t observed = 0;
  for (const auto& bucket : counters.latency) observed += bucket.load();
  CHECK(observed == 2);
  CHECK(counters.bytes_in.load() ==
        hello.size() + std::string_view("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n").size());
  CHECK(counters.bytes_out.load() > 0);
}

TEST_CASE("stop lets a running request end, closes idle connections and accepts no more") {
  Gate gate;
  Router router = plain_routes();
  router.add("GET", "/slow", auth::Permission::open, gate.handler());
  RunningServer running(std::move(router));
  Client idle(running.port);
  idle.send(hello);
  CHECK(idle.receive().status == 200);
  Client busy(running.port);
  busy.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  gate.entered->get_future().wait();

  bool told = false;
  running.on_thread([&] { running.server->on_stop([&] { told = true; }); });
  running.stop();
  auto stopped = running.stopped();
  CHECK(told);
  CHECK(idle.closed());
  CHECK(stopped.wait_for(0s) == std::future_status::timeout);
  running.on_thread([&] { gate.timer.reset(); });
  const Answer answer = busy.receive();
  CHECK(answer.body == "done\n");
  CHECK(answer.headers.at("connection") == "close");
  CHECK(busy.closed());
  busy.close();
  stopped.get();
  CHECK(running.server->counters().connections_open.load() == 0);
}

TEST_CASE("a request that never ends is given up after the grace") {
  Gate gate;
  Router router = plain_routes();
  router.add("GET", "/slow", auth::Permission::open, gate.handler());
  ServerOptions options;
  options.stop_grace = 10ms;
  RunningServer running(std::move(router), options);
  Client busy(running.port);
  busy.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  gate.entered->get_future().wait();
  running.stop();
  CHECK(busy.closed());
  running.stopped().get();
  running.on_thread([&] { gate.timer.reset(); });
}

TEST_CASE("stop with no connection at all, waited for before it is called") {
  RunningServer running(plain_routes());
  auto stopped = running.stopped();
  running.stop();
  stopped.get();
}

TEST_CASE("a server may go while connections are open") {
  RunningServer running(plain_routes());
  Client client(running.port);
  client.send(hello);
  CHECK(client.receive().status == 200);
  running.on_thread([&] { running.server.reset(); });
  CHECK(client.closed());
}
