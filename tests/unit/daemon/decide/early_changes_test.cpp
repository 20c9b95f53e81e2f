#include "daemon/decide/early_changes.hpp"

#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

EarlyChange early(std::string id, std::string message = "m1") {
  return {.id = std::move(id), .channel = "x", .peer = "p", .message_id = std::move(message), .actor = "t1"};
}

void tell(EarlyChanges& book, std::uint64_t seq, const EarlyChange& change,
          journal::EventType type = journal::EventType::message_change_early) {
  book.apply(journal::make_event({.seq = seq, .type = type, .agent = "main"}, early_json(change)));
}

std::vector<std::string> ids(const std::vector<const EarlyChange*>& changes) {
  std::vector<std::string> list;
  for (const EarlyChange* change : changes) list.push_back(change->id);
  return list;
}

using List = std::vector<std::string>;

}  // namespace

TEST_CASE("an early change is kept until its message took it or it was lost, over a restart") {
  EarlyChanges book;
  EarlyChange edit = early("e");
  edit.text = "new";
  edit.mentioned = true;
  edit.author = "U1";
  edit.at = 1;
  edit.until = 2;
  edit.age_at = 3;
  tell(book, 1, edit);
  tell(book, 2, early("d", "m2"));
  CHECK(book.is_dirty());
  const std::string text = book.to_json();
  CHECK_FALSE(book.is_dirty());
  auto again = EarlyChanges::from_json(text);
  REQUIRE(again);
  CHECK(again->to_json() == text);
  tell(*again, 2, early("x", "m3"));  // it holds this event already
  CHECK(ids(again->all()) == List{"e", "d"});
  tell(*again, 3, edit, journal::EventType::message_change_taken);
  tell(*again, 4, early("d", "m2"), journal::EventType::message_change_lost);
  CHECK(again->empty());
  CHECK(again->is_dirty());
  CHECK_FALSE(EarlyChanges::from_json("{}"));
}

TEST_CASE("a message takes what names it, from whoever may change it") {
  EarlyChanges book;
  EarlyChange limited = early("limited");
  limited.is_limited = true;
  EarlyChange of_author = early("author");
  of_author.author = "U1";
  std::uint64_t seq = 0;
  for (const EarlyChange& change : {early("all"), limited, of_author, early("other", "m2")}) tell(book, ++seq, change);
  EarlyChange message = early("");
  CHECK(ids(book.of_message(message)) == List{"all", "limited", "author"});
  message.author = "U2";
  message.actor = "t2";
  CHECK(ids(book.of_message(message)) == List{"all"});
  message.account_id = "work";
  CHECK(book.of_message(message).empty());
  CHECK(book.same(limited)->id == "limited");
  tell(book, ++seq, early("all"));  // a newer one takes its place
  CHECK(ids(book.all()) == List{"limited", "author", "other", "all"});
}

TEST_CASE("the oldest change of a conversation makes room, else that of whoever keeps the most") {
  EarlyChanges book;
  std::uint64_t seq = 0;
  const auto name = [](std::size_t n) { return "m" + std::to_string(n); };
  for (std::size_t n = 0; n < EarlyChanges::most_of_conversation; ++n) tell(book, ++seq, early(name(n), name(n)));
  CHECK(ids(book.without_room(early("next", "next"))) == List{"m0"});
  CHECK(book.without_room(early("m5", "m5")).empty());  // it takes its own place
  EarlyChange limited = early("l", "l");
  limited.is_limited = true;
  CHECK(book.without_room(limited).empty());  // a token has room of its own
  EarlyChange elsewhere = early("e", "e");
  elsewhere.peer = "q";
  CHECK(book.without_room(elsewhere).empty());
  for (std::size_t n = book.all().size(); n < EarlyChanges::most; ++n) {
    EarlyChange change = early(name(n), name(n));
    change.peer = name(n);
    change.is_limited = true;
    tell(book, ++seq, change);
  }
  CHECK(ids(book.without_room(elsewhere)) == List{"m100"});  // the limited token keeps more
}

TEST_CASE("long changes make room by their bytes") {
  EarlyChanges book;
  EarlyChange long_one = early("a", "a");
  long_one.is_limited = true;
  long_one.text = std::string(EarlyChanges::longest - 1'000, 'x');
  tell(book, 1, early("small", "small"));
  for (std::uint64_t n = 0; n < EarlyChanges::most_bytes / EarlyChanges::longest; ++n) {
    long_one.id = long_one.message_id = "l" + std::to_string(n);
    tell(book, 2 + n, long_one);
  }
  long_one.id = long_one.message_id = "next";
  CHECK(ids(book.without_room(long_one)) == List{"l0"});
  CHECK(book.without_room(early("tiny", "tiny")).empty());
}
