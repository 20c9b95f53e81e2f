// The keys of describe.hpp that tell where the daemon listens and what it lets clients do.
#pragma once

#include <cstdint>

#include "config/rules.hpp"

namespace sessiond::config {

inline constexpr std::int64_t kib = 1LL << 10, mib = 1LL << 20, gib = 1LL << 30, pib = 1LL << 50;
inline constexpr std::int64_t second = 1'000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
inline constexpr std::int64_t ten_years = 3'650 * day;

template <class Visitor, class AListen>
void describe_listen(Visitor& v, AListen& c) {
  v.key("tcp", c.tcp, OneOrMany{listen_address_fault},
        "One \"address:port\" or a list of them; [] for none. Port 0 takes any free port.");
  v.key(
      "unix", c.unix, TextRule{file_path_fault},
      "A socket for this machine: whoever runs as the daemon's user is admin there. null for none. At most 107 bytes.");
  v.group("tls", "TLS 1.2 and 1.3 on every TCP address. The files are read again on SIGHUP.", [&] {
    v.key("cert", c.tls.cert, TextRule{file_path_fault},
          "The certificate and what leads to its root, PEM. null: no TLS.");
    v.key("key", c.tls.key, TextRule{file_path_fault}, "Its private key, PEM, readable by the daemon's user alone.");
    v.key("clientCa", c.tls.client_ca, TextRule{file_path_fault},
          "Clients may show a certificate of these authorities instead of a token: its common name is the token's id.");
  });
  v.key("insecure", c.insecure, Any{},
        "Set true to listen on other than loopback addresses without TLS: tokens and messages can be read on the way. "
        "For containers and networks that you trust.");
  v.key(
      "hosts", c.hosts, TextRule{host_name_fault},
      "The names under which the daemon is reached, without port: requests with another Host are refused (421), which "
      "protects browsers from DNS rebinding.");
}

template <class Visitor, class ALimits>
void describe_limits(Visitor& v, ALimits& c) {
  v.key("bodyBytes", c.body_bytes, Between{kib, gib}, "The largest request body (else 413).");
  v.key("headerBytes", c.header_bytes, Between{kib, mib}, "The largest request line and headers together (else 431).");
  v.key("targetBytes", c.target_bytes, Between{256, mib},
        "The longest path and query (else 414); part of headerBytes.");
  v.key("requestTimeoutMs", c.request_timeout_ms, Between{10, hour},
        "How long a request may take to arrive (else 408).");
  v.key("headerTimeoutMs", c.header_timeout_ms, Between{10, hour},
        "How long its request line and headers may take (else 408).");
  v.key("connections", c.connections, Between{1, 1'000'000},
        "How many connections are open at once, streams included.");
  v.key("connectionsPerAddress", c.connections_per_address, Between{0, 1'000'000},
        "How many of them from one address; 0 for no such limit. This machine itself has none.");
  v.key("bytesPerToken", c.bytes_per_token, Between{0, pib},
        "How many bytes of long requests and of replies that the client has not taken one token may have under way "
        "(else 429; one request alone always may); 0 for no limit.");
  v.key("agents", c.agents, Between{1, 1'000'000},
        "How many agents there may be when a client makes another one (else 422).");
  v.key("sessionsPerAgent", c.sessions_per_agent, Between{1, 100'000'000},
        "How many sessions an agent may have when a client makes another one (else 422).");
  v.key("entryBytesPerAgent", c.entry_bytes_per_agent, Between{mib, pib},
        "How many bytes the entries of an agent's sessions may have when a client makes or grows one (else 422). All "
        "of them are in memory.");
  v.key("requestsPerSecond", c.requests_per_second, Between{0, 1'000'000},
        "How many requests one token may make a second, and as many at once (else 429); 0 for no limit.");
  v.key("streamsPerToken", c.streams_per_token, Between{0, 1'000'000},
        "How many event streams one token may have open (else 429); 0 for no limit.");
  v.key("failedLoginsPerMinute", c.failed_logins_per_minute, Between{0, 1'000'000},
        "How many wrong tokens one address may send (then 429); 0 for no limit. A right one is taken all the same.");
  v.key("streamEntryBytes", c.stream_entry_bytes, Between{kib, gib},
        "How many bytes an entry of a session's stream may have (else 422).");
  v.key("streamBytes", c.stream_bytes, Between{64 * kib, pib},
        "How many bytes a stream of a session may have (else 413). A reset begins a new one.");
  v.key("logEntryBytes", c.log_entry_bytes, Between{kib, gib},
        "How many bytes one line of a session's log may have when a client writes it (else 422).");
  v.key("logBytes", c.log_bytes, Between{64 * kib, pib},
        "How many bytes the log of a session may have; then nothing more is written to it, and its last line says so.");
  v.key("jsonDepth", c.json_depth, Between{8, 1'024}, "How deep arrays and objects in a request may nest.");
}

}  // namespace sessiond::config
