#include "daemon/decide/delivery_book.hpp"

#include <fmt/format.h>

#include <random>

#include "daemon/decide/delivery_commands.hpp"
#include "tests/unit/daemon/decide/book_on_paper.hpp"
#include "tests/unit/daemon/decide/world.hpp"

using namespace sessiond;
using namespace sessiond::decide;

namespace {

constexpr const char* slack_key = "agent:main:slack:direct:u1";

const SeesDelivery all = [](const AgentState&, const Delivery&) { return true; };

struct WithDeliveries : World {
  WithDeliveries() {
    CHECK(kept.renew({.token = "t"}, 1'000));
    adoptions = &kept;
    run(CreateSession{
        .key = slack_key,
        .session_id = "s",
        .entry = edit_of(R"({"deliveryContext":{"channel":"slack","to":"u1"},"lastChannel":"slack","lastTo":"u1"})")});
  }
  Adoptions kept{};

  std::string send(const std::string& text, const std::string& to = "") {
    const Decision done = run(Outbound{.target = {.key = slack_key}, .text = text, .deliver = {.to = to}});
    return json::string_at(at(done.body, "delivery"), "deliveryId").value_or("");
  }
  std::vector<std::string> claim(std::size_t limit = 100, const std::set<std::string>& waiting = {}) {
    const Decision done = run(ClaimDeliveries{
        .wants = all, .waits = [&](const std::string& id) { return waiting.contains(id); }, .limit = limit});
    std::vector<std::string> ids;
    for (const std::string_view each : json::elements(done.body))
      ids.push_back(json::string_at(each, "deliveryId").value_or(""));
    return ids;
  }
  const Delivery& of(const std::string& id) const { return *state.deliveries.find(id); }
  void ack(const std::string& id) { run(AckDelivery{.id = id, .sees = all}); }

  // The book, as it is read from what was written of it since the beginning.
  DeliveryBook again() {
    paper.write(state.deliveries, 3);
    return paper.read();
  }
  BookOnPaper<DeliveryBook> paper{};
  // The book, as the journal alone makes it.
  DeliveryBook replayed() const {
    DeliveryBook book;
    for (const std::string& line : log) book.apply(decode(*journal::parse_event(line)));
    return book;
  }
};

// All that two books of the same history must agree on.
std::string picture_of(DeliveryBook book) {
  std::string out = text_of(book);
  for (const auto& [order, id] : book.heads()) out += fmt::format("\nhead {} {}", order, id);
  const DeliveryBook::Counts counts = book.counts();
  return out + fmt::format("\n{} {} {} {}", counts.pending, counts.leased, counts.failed, counts.oldest);
}

}  // namespace

TEST_CASE("a conversation's deliveries are offered one after the other") {
  WithDeliveries world;
  const std::string one = world.send("1");
  const std::string two = world.send("2");
  const std::string other = world.send("3", "u2");
  CHECK(one.size() == 24);
  CHECK(one.ends_with(delivery_id_ending("main")));
  CHECK(world.claim(1) == std::vector{one});
  CHECK(world.claim() == std::vector{other});
  CHECK(world.claim().empty());
  world.ack(one);
  CHECK(world.of(one).status == DeliveryStatus::sent);
  CHECK(json::find("{" + world.of(one).fixed + "}", "text") == std::nullopt);
  CHECK(world.claim(100, {two}).empty());
  CHECK(world.claim() == std::vector{two});
}

TEST_CASE("a delivery that was put back is not offered beside a leased one of its conversation") {
  WithDeliveries world;
  const std::string one = world.send("1");
  const std::string two = world.send("2");
  world.claim();
  world.run(NackDelivery{.id = one, .attempt = 1, .error = R"({"code":"x"})", .final = true, .sees = all});
  CHECK(world.state.deliveries.counts().failed == 1);
  CHECK(world.claim() == std::vector{two});
  world.run(RetryDelivery{.id = one, .sees = all});
  CHECK(world.of(one).attempt == 1);
  CHECK(world.of(one).tries() == 0);
  CHECK(world.claim().empty());
  world.ack(two);
  CHECK(world.claim() == std::vector{one});
  CHECK(world.state.deliveries.counts().failed == 0);
}

TEST_CASE("retries wait longer each time, and end") {
  CHECK(retry_delay_ms(1) == 1'000);
  CHECK(retry_delay_ms(2) == 2'000);
  CHECK(retry_delay_ms(9) == 256'000);
  CHECK(retry_delay_ms(10) == 300'000);
  CHECK(retry_delay_ms(1'000) == 300'000);
  WithDeliveries world;
  world.rules.deliveries.max_attempts = 2;
  const std::string id = world.send("1");
  world.claim();
  world.run(NackDelivery{.id = id, .attempt = 1, .error = R"({"code":"x"})", .sees = all});
  CHECK(world.of(id).next_at == world.now + 1'000);
  world.claim();
  CHECK(world.refused(NackDelivery{.id = id, .attempt = 1, .error = "{}", .sees = all}).code == Code::lease_lost);
  CHECK(world.run(ExpireDelivery{.id = id, .attempt = 1}).status == 204);
  CHECK(world.run(ExpireDelivery{.id = id, .attempt = 2}).status == 200);
  CHECK(at(world.of(id).error, "code") == "\"too_many_attempts\"");
}

TEST_CASE("what nobody claims is not kept, and what the policy denies is not sent") {
  WithDeliveries world;
  world.adoptions = nullptr;
  CHECK(world.send("1").empty());
  CHECK(world.state.deliveries.all().empty());
  world.adoptions = &world.kept;
  world.rules.send_policy.rules = {{.match = {.to = "u1"}, .action = policy::SendAction::deny}};
  transcripts::NewEntry entry{.type = "message", .role = "assistant", .stamp = true};
  entry.body = R"({"role":"assistant","content":"x"})";
  const Decision done =
      world.run(AppendMessages{.target = {.key = slack_key}, .append = {.entries = {entry}}, .deliver = DeliverTo{}});
  CHECK(at(at(done.body, "delivery"), "status") == "\"denied\"");
  CHECK(at(at(done.body, "delivery"), "rule") == "0");
  CHECK(at(done.events[0].data, "deliver") == "-");
  CHECK(world.state.deliveries.all().empty());
}

TEST_CASE("an adoption covers what its claim named") {
  const Adoption part{.agents = {"main"}, .channel = "slack", .account_id = "a", .key_prefix = "agent:main:slack:dm:"};
  CHECK(part.covers("main", "agent:main:slack:direct:u", "Slack", "a"));
  CHECK_FALSE(part.covers("other", "agent:main:slack:direct:u", "slack", "a"));
  CHECK_FALSE(part.covers("main", "agent:main:slack:direct:u", "discord", "a"));
  CHECK_FALSE(part.covers("main", "agent:main:slack:direct:u", "slack", "b"));
  CHECK_FALSE(part.covers("main", "agent:main:slack:group:u", "slack", "a"));
  Adoptions all_of;
  Adoption first{.token = "t", .channel = "slack", .claimed_at = 10};
  CHECK(all_of.renew(first, 5));
  first.claimed_at = 14;
  CHECK_FALSE(all_of.renew(first, 5));
  first.claimed_at = 15;
  CHECK(all_of.renew(first, 5));
  CHECK(all_of.newest() == 15);
  auto read = Adoptions::from_json(all_of.to_json());
  REQUIRE(read);
  CHECK(read->to_json() == all_of.to_json());
  CHECK_FALSE(read->drop_older(15));
  CHECK(read->drop_older(16));
  CHECK_FALSE(read->covers("main", "k", "slack", ""));
  for (std::size_t n = 1; n < Adoptions::most_of_token; ++n)
    CHECK(all_of.renew({.token = "t", .key_prefix = std::to_string(n), .claimed_at = 20}, 5));
  CHECK(all_of.renew({.token = "u", .channel = "irc", .claimed_at = 1}, 5));
  CHECK(all_of.covers("main", "k", "slack", ""));
  CHECK(all_of.renew({.token = "t", .key_prefix = "more", .claimed_at = 21}, 5));  // in place of its oldest
  CHECK_FALSE(all_of.covers("main", "k", "slack", ""));
  CHECK(all_of.covers("main", "k", "irc", ""));
  CHECK(all_of.drop_token("u"));
  CHECK_FALSE(all_of.drop_token("u"));
  CHECK_FALSE(all_of.covers("main", "k", "irc", ""));
}

TEST_CASE("the book is the same from its file, from the journal, and from both") {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    CAPTURE(seed);
    WithDeliveries world;
    world.rules.deliveries.max_attempts = 3;
    std::mt19937 random(seed);
    const auto roll = [&random](unsigned sides) { return static_cast<unsigned>(random()) % sides; };
    std::vector<std::string> ids;
    for (int step = 0; step < 200; ++step) {
      world.now += 10;
      const std::string id = ids.empty() ? "" : ids[roll(static_cast<unsigned>(ids.size()))];
      const std::int64_t attempt = id.empty() ? 0 : world.of(id).attempt;
      switch (roll(8)) {
        case 0:
        case 1:
          ids.push_back(world.send("text", "u" + std::to_string(roll(4))));
          break;
        case 2:
          world.claim(1 + roll(3));
          break;
        case 3:
          if (!id.empty()) world.ack(id);
          break;
        case 4:
          if (!id.empty() && world.of(id).status == DeliveryStatus::leased)
            world.run(NackDelivery{
                .id = id, .attempt = attempt, .error = R"({"code":"x"})", .final = roll(3) == 0, .sees = all});
          break;
        case 5:
          if (!id.empty()) world.run(ExpireDelivery{.id = id, .attempt = attempt, .too_old = roll(4) == 0});
          break;
        case 6:
          if (!id.empty()) world.run(RetryDelivery{.id = id, .sees = all});
          break;
        default:
          if (!id.empty() && roll(4) == 0) world.run(DropDelivery{.id = id, .sees = all});
          break;
      }
      for (const auto& [order, head] : world.state.deliveries.heads()) {
        for (const auto& [other_id, other] : world.state.deliveries.all()) {
          if (other.conversation != world.of(head).conversation || !other.is_unsent()) continue;
          CHECK(other.status == DeliveryStatus::pending);
          CHECK(other.order >= order);
        }
      }
      if (step % 20 != 0) continue;
      const std::string wanted = picture_of(world.state.deliveries);
      DeliveryBook read = world.again();
      CHECK(picture_of(read) == wanted);
      CHECK(picture_of(world.replayed()) == wanted);
      for (const std::string& line : world.log) read.apply(decode(*journal::parse_event(line)));  // it holds them all
      CHECK(picture_of(read) == wanted);
    }
  }
}

TEST_CASE("what a delivery sends is written once") {
  WithDeliveries world;
  const std::string id = world.send("a long text");
  world.paper.write(world.state.deliveries);
  CHECK(world.paper.text().contains("a long text"));
  const std::size_t before = world.paper.written();
  CHECK(world.claim() == std::vector{id});
  world.paper.write(world.state.deliveries);
  CHECK(world.paper.written() == before + 1);
}

TEST_CASE("deliveries of an earlier version are read, and written as records") {
  const std::string one =
      R"("fixed":{"deliveryId":"d1","key":"k","channel":"x","sessionId":"s","topic":null,"messageId":"m",)"
      R"("text":"hi"},"conversation":"c","order":7,"queuedAt":5,"status":"pending","attempt":0)";
  const std::string sent = R"("fixed":{"deliveryId":"d2","key":"k","channel":"x","sessionId":"s","topic":null,)"
                           R"("messageId":"n"},"conversation":"c","order":6,"queuedAt":4,"status":"sent","attempt":1)";
  auto book = DeliveryBook::from_json(R"({"seq":9,"unsent":[{)" + one + R"(}],"failed":[],"ended":[{)" + sent + "}]}");
  REQUIRE(book);
  CHECK_FALSE(book->unwritten().is_dirty());  // it is taken over with its first change
  BookOnPaper<DeliveryBook> paper;
  paper.write(*book);
  CHECK(paper.text() == "d d1 #0 {" + one.substr(one.find("\"conversation")) + "}\nd d2 #2 {" +
                            sent.substr(sent.find("\"conversation")) + "}\nt d1 #0 " +
                            one.substr(8, one.find('}') - 7) + "\nt d2 #0 " + sent.substr(8, sent.find('}') - 7) +
                            "\n" + R"({"end":9,"open":1})");
  CHECK(picture_of(paper.read()) == picture_of(*book));
}

TEST_CASE("a purge fails what is not sent, and forgets its text") {
  WithDeliveries world;
  const std::string id = world.send("secret");
  world.run(DeleteSession{.target = {.key = slack_key}, .purge = true});
  CHECK(world.of(id).status == DeliveryStatus::failed);
  BookChanges changes;
  REQUIRE(world.state.deliveries.take_changes(changes));
  CHECK(changes.forgets);
  CHECK_FALSE(text_of(world.state.deliveries).contains("secret"));
  CHECK(world.state.deliveries.counts().failed == 0);
  world.run(RetryDelivery{.id = id, .sees = all});
  CHECK(world.of(id).status == DeliveryStatus::failed);
}

TEST_CASE("a bridge is not given what a model thinks") {
  WithDeliveries world;
  transcripts::NewEntry entry{.type = "message", .role = "assistant", .stamp = true};
  entry.body =
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"image","data":"x"}]})";
  world.run(AppendMessages{.target = {.key = slack_key}, .append = {.entries = {entry}}, .deliver = DeliverTo{}});
  const std::string shown = delivery_json(world.state.deliveries.all().begin()->second);
  CHECK(at(shown, "text") == "\"a\"");
  CHECK(at(shown, "content") == R"([{"type":"text","text":"a"},{"type":"image","data":"x"}])");
}

TEST_CASE("a message finds its own delivery again, and no other session's") {
  WithDeliveries world;
  const std::string id = world.send("1");
  const Delivery& made = world.of(id);
  CHECK(world.state.deliveries.find_of_message(made.message) == &made);
  CHECK(made.message.starts_with("[\"s\",null,"));
  CHECK(world.state.deliveries.find_of_message("[\"other\"" + made.message.substr(4)) == nullptr);
  const DeliveryBook again = world.again();
  CHECK(again.find_of_message(made.message)->id == id);
  CHECK(made.age_created_at == world.now);
  CHECK(again.find(id)->age_created_at == world.now);
}

TEST_CASE("failed deliveries keep their text up to 8 MiB") {
  WithDeliveries world;
  std::vector<std::string> ids;
  for (int n = 0; n < 4; ++n) {
    ids.push_back(world.send(std::string(3U << 20, 'x')));
    world.run(
        NackDelivery{.id = world.claim().at(0), .attempt = 1, .error = R"({"code":"x"})", .final = true, .sees = all});
  }
  const auto has_text = [&world](const std::string& id) {
    return json::find("{" + world.of(id).fixed + "}", "text").has_value();
  };
  CHECK_FALSE(has_text(ids[0]));
  CHECK_FALSE(has_text(ids[1]));
  CHECK(has_text(ids[2]));
  CHECK(has_text(ids[3]));
  CHECK(world.of(ids[0]).status == DeliveryStatus::failed);
  CHECK(world.state.deliveries.counts().failed == 4);
  CHECK(picture_of(world.again()) == picture_of(world.replayed()));
  world.run(RetryDelivery{.id = ids[0], .sees = all});
  CHECK(world.of(ids[0]).status == DeliveryStatus::failed);
  BookChanges changes;
  while (!world.state.deliveries.take_changes(changes)) continue;
  const std::string last = world.send(std::string(3U << 20, 'x'));
  world.run(
      NackDelivery{.id = world.claim().at(0), .attempt = 1, .error = R"({"code":"x"})", .final = true, .sees = all});
  CHECK_FALSE(has_text(ids[2]));
  changes = {};
  while (!world.state.deliveries.take_changes(changes)) continue;
  std::set<std::string> written;
  for (const BookRecord& record : changes.records) written.insert(record.key);
  CHECK(written == std::set<std::string>{"d " + last, "t " + last, "t " + ids[2]});
}
