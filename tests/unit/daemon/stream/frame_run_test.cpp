#include "daemon/stream/frame_run.hpp"

#include <doctest/doctest.h>

#include <set>

#include "daemon/stream/frames.hpp"

using namespace sessiond;
using namespace sessiond::stream;

namespace {

StreamView view(std::string channel = {}) {
  StreamView all;
  all.principal = {.id = "a", .role = auth::Role::admin, .channel = std::move(channel)};
  return all;
}

// Batches of these sizes; every third event is of another channel.
Tail filled(std::initializer_list<int> batches, std::size_t bytes = 0, std::size_t most = 1 << 30) {
  Tail tail(0, most);
  for (const int size : batches) {
    std::vector<journal::Event> events;
    for (int i = 0; i < size; ++i) {
      const std::uint64_t seq = tail.head() + events.size() + 1;
      events.push_back(journal::make_event({.seq = seq,
                                            .time = 1,
                                            .type = journal::EventType::session_updated,
                                            .agent = "main",
                                            .key = "agent:main:x",
                                            .channel = seq % 3 == 0 ? "irc" : "slack"},
                                           "{\"text\":\"" + std::string(bytes + seq % 5, 'x') + "\"}"));
    }
    tail.push(std::make_shared<const StreamBatch>("3f9a1c02", std::move(events)));
  }
  return tail;
}

std::string text_of(const FrameRun& gathered) {
  std::string out;
  for (const iovec& buffer : gathered.buffers()) out.append(static_cast<const char*>(buffer.iov_base), buffer.iov_len);
  return out;
}

std::string frames_of(const Tail& tail, std::uint64_t from, std::uint64_t to, bool irc = true) {
  std::string out;
  for (std::uint64_t seq = from; seq <= to; ++seq)
    if (irc || seq % 3 != 0) out += tail.batch(seq)->frames(seq, seq);
  return out;
}

}  // namespace

TEST_CASE("a tail is bounded by bytes, and holds the last batch whatever its size") {
  const Tail all = filled({1, 2, 3});
  CHECK(all.head() == 6);
  CHECK(all.oldest() == 1);
  for (std::uint64_t seq = 1; seq <= 6; ++seq) CHECK(all.batch(seq)->envelope(seq).seq == seq);
  const Tail last = filled({1, 2, 3}, 0, 1);
  CHECK(last.oldest() == 4);
  const Tail none(9, 1);
  CHECK(none.oldest() == 10);
}

TEST_CASE("what a view shows, over batches, from anywhere to anywhere") {
  const Tail tail = filled({1, 4, 1, 7, 2});
  for (const bool irc : {true, false}) {
    for (std::uint64_t from = 1; from <= 15; ++from) {
      for (std::uint64_t to = from; to <= 15; ++to) {
        FrameRun out;
        gather(out, tail, view(irc ? "" : "slack"), from, to);
        CHECK(text_of(out) == frames_of(tail, from, to, irc));
        CHECK(out.bytes() == text_of(out).size());
        CHECK(out.next == to + 1);
      }
    }
  }
}

TEST_CASE("cut anywhere: the event that was begun, and its rest") {
  const Tail tail = filled({1, 4, 1, 7, 2});
  for (const bool irc : {true, false}) {
    FrameRun out;
    gather(out, tail, view(irc ? "" : "slack"), 2, 14);
    const std::string text = text_of(out);
    std::size_t begin = 0;
    std::uint64_t before = 0;
    for (std::uint64_t seq = 2; seq <= 14; ++seq) {
      if (!irc && seq % 3 == 0) continue;
      const std::size_t end = begin + tail.batch(seq)->frames(seq, seq).size();
      CHECK(out.cut(begin).seq == before);
      CHECK(out.cut(begin).rest.empty());
      for (std::size_t taken = begin + 1; taken < end; ++taken) {
        CHECK(out.cut(taken).seq == seq);
        CHECK(out.cut(taken).rest == text.substr(taken, end - taken));
      }
      begin = end;
      before = seq;
    }
  }
}

TEST_CASE("a gather is bounded, and takes one event of any size") {
  const Tail huge = filled({2}, 8 << 20);
  FrameRun one;
  gather(one, huge, view(), 1, 2);
  CHECK(one.next == 2);
  const Tail many = filled({3000}, 300);
  FrameRun some;
  gather(some, many, view(), 1, 3000);
  CHECK(some.bytes() < 270'000);
  CHECK(some.bytes() > 250'000);
  FrameRun none;
  gather(none, filled({5000}), view("nobody's"), 1, 5000);
  CHECK(none.empty());
  CHECK(none.next == 4097);
}
