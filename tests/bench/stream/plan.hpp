// What one run does: which server, how many readers, and how events are published.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sessiond::bench::stream {

enum class Server : std::uint8_t { sessiond, nchan, bare };

enum class Mode : std::uint8_t {
  fanout,       // events are published at a rate; over when every reader has them all
  closed_loop,  // every publisher sends its next event when the last is acknowledged, for some seconds
  replay,       // readers start at a place in the past; over when they have reached the head
  idle,         // readers are opened and left alone for some seconds
};

struct Plan {
  Server server = Server::sessiond;
  Mode mode = Mode::fanout;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string token{};              // sent as a bearer token
  std::string path = "/v1/events";  // of the stream
  std::string publish_path{};       // empty: sessiond's append route
  std::size_t readers = 1000;
  std::size_t opening = 256;      // so many at once
  std::size_t stalled = 0;        // more readers, which read nothing after the response head until the end
  int stalled_buffer = 4096;      // their SO_RCVBUF
  bool reconnect = false;         // readers come back with Last-Event-ID, publishers repeat what was not acknowledged
  std::size_t publishers = 1;     // keep-alive connections
  std::size_t sessions = 1;       // they are spread over so many
  std::uint64_t events = 0;       // fanout
  double rate = 50;               // fanout: events a second,
  std::size_t burst = 1;          // so many of them at a time
  std::uint64_t most_behind = 0;  // closed loop: publishers wait while a reader is further behind
  std::size_t payload = 100;      // bytes of text in an event
  double seconds = 0;             // closed loop, idle; replay: at most, 0 without limit
  std::vector<int> pids{};        // the server's processes, whose CPU time and memory are measured
};

}  // namespace sessiond::bench::stream
