// Reads cases of bytes with the request reader, without a socket or a clock: what tests/edge/run.py holds its tables
// against. Standard input is a list of cases, each its length in decimal, a line feed and the bytes. For each case
// there are three lines, one for its bytes in one piece, in pieces of 7 and one by one:
//   <requests read> <X-Request-Id of the last, or -> <end>
// where the end is the status of the refusal, `close` after a request that ends its connection, `more` in the middle of
// a request, or `idle`.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

#include "daemon/http/request_reader.hpp"

using namespace sessiond;
using namespace sessiond::http;

namespace {

std::string read_in_pieces(std::string_view bytes, std::size_t step) {
  const ReadLimits limits;
  RequestReader reader(limits);
  Request request;
  int count = 0;
  std::string last = "-";
  const auto ended = [&](std::string_view end) { return fmt::format("{} {} {}", count, last, end); };
  for (;;) {
    const Result<RequestReader::Progress> progress = reader.advance(request);
    if (!progress) return ended(std::to_string(status_of(progress.error().code)));
    if (*progress == RequestReader::Progress::head) continue;
    if (*progress == RequestReader::Progress::complete) {
      ++count;
      const std::string_view id = request.header("x-request-id");
      last = id.empty() ? "-" : std::string(id);
      if (!reader.framing().keep_alive) return ended("close");
      request = {};
      reader.next();
      continue;
    }
    if (bytes.empty()) return ended(reader.started() ? "more" : "idle");
    const auto room = reader.prepare();
    const std::size_t size = std::min({step, bytes.size(), room.size()});
    std::memcpy(room.data(), bytes.data(), size);
    reader.commit(size);
    bytes.remove_prefix(size);
  }
}

}  // namespace

int main() {
  std::size_t length = 0;
  while (std::cin >> length && std::cin.get() == '\n') {
    std::string bytes(length, '\0');
    if (!std::cin.read(bytes.data(), static_cast<std::streamsize>(length))) return 1;
    for (const std::size_t step : {std::max<std::size_t>(length, 1), std::size_t{7}, std::size_t{1}}) {
      fmt::print("{}\n", read_in_pieces(bytes, step));
    }
  }
  return std::cin.eof() ? 0 : 1;
}
