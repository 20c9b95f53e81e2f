#include "policy/context/run_order.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <optional>
#include <random>
#include <ranges>
#include <set>

#include "tests/unit/policy/context/messages.hpp"

namespace sessiond::context {
namespace {

using namespace sessiond::testing;

// A transcript that grows, and the queue of its session.
class Story {
 public:
  std::string word(std::string_view text = "hi") { return add(user(text)); }
  std::string add(std::string body, std::string type = "message") {
    lines.push_back(line_of(lines.size(), std::move(body), std::move(type)));
    return lines.back().id;
  }
  void input(std::string_view run, const std::vector<std::string>& ids, std::string_view retry_of = "",
             std::string_view more = "") {
    const std::string retry = retry_of.empty() ? "" : fmt::format(R"(,"retryOf":"{}")", retry_of);
    note("sessiond.input", fmt::format(R"("runId":"{}","entries":{}{}{})", run, json::array_of(ids), retry, more));
  }
  void record(std::string_view run, std::string_view more = "") {
    note("sessiond.run", fmt::format(R"("runId":"{}"{})", run, more));
  }
  void dropped(std::string_view run, const std::vector<std::string>& ids, std::string_view more = "") {
    record(run, fmt::format(R"(,"input":{}{})", json::array_of(ids), more));
  }
  Conversation read(const OrderAsked& asked = {}) const {
    Conversation conversation{.after = lines};
    put_in_order(conversation, asked);
    if (!lines.empty()) CHECK(seqs_in_order(asked) == seqs_of(conversation.after));
    return conversation;
  }
  // Returns the texts that a model is shown, with a space between them.
  std::string shown(const OrderAsked& asked = {}) const {
    const Conversation conversation = read(asked);
    std::string out;
    const View view = view_of(conversation, {.prune = Prune::off, .of_run = !asked.run.empty()}, {});
    for (const Row& row : view.rows.all) {
      const std::string_view content = row.entry.content;
      out += (out.empty() ? "" : " ") + json::as_string(content).value_or(std::string(content));
    }
    return out;
  }
  std::vector<Line> lines{};

 private:
  static std::vector<std::uint64_t> seqs_of(const std::vector<Line>& of) {
    std::vector<std::uint64_t> seqs;
    for (const Line& line : of) seqs.push_back(line.seq);
    return seqs;
  }
  // The same order, of the entries' numbers alone.
  std::vector<std::uint64_t> seqs_in_order(const OrderAsked& asked) const {
    std::vector<Mark> marks;
    for (const Line& line : lines)
      if (auto mark = mark_of(line)) marks.push_back(*std::move(mark));
    const Order order = order_of(marks, asked);
    const std::size_t half = lines.size() / 2;
    std::vector<Order::Stretch> path{{0, half}};
    if (half + 1 < lines.size()) path.push_back({half + 1, lines.size() - 1});
    const auto holds = [](std::uint64_t seq) {
      return [seq](const Order::Stretch& stretch) { return stretch.first <= seq && seq <= stretch.last; };
    };
    std::vector<std::uint64_t> seqs;
    for (const auto& [first, last] : in_order(path, order))
      for (std::uint64_t seq = first; seq <= last; ++seq)
        if (std::ranges::none_of(order.left_out, holds(seq))) seqs.push_back(seq);
    return seqs;
  }
  void note(std::string_view type, std::string_view members) {
    add(fmt::format(R"({{"customType":"{}","data":{{{}}}}})", type, members), "custom");
  }
};

}  // namespace

TEST_CASE("a word stands where it was handed to a run first") {
  Story story;
  story.input("r1", {story.word("q1")});
  const std::string second = story.word("q2");
  story.add(assistant("a1"));
  CHECK(story.shown() == "q1 a1 q2");
  story.record("r1");
  story.input("r2", {second});
  story.add(assistant("a2"));
  story.record("r2");
  CHECK(story.shown() == "q1 a1 q2 a2");
}

TEST_CASE("words that wait come last, in the order of the queue") {
  Story story;
  const std::string later = story.word("later");
  const std::string first = story.word("first");
  story.input("r1", {story.word("q1")});
  story.add(assistant("a1"));
  story.record("r1");
  CHECK(story.shown({.waiting = {first, later}}) == "q1 a1 first later");
  CHECK(story.shown() == "later first q1 a1");
}

TEST_CASE("a word that no run was handed stands behind the run during which it came") {
  Story story;
  story.input("r1", {story.word("q1")});
  story.word("aside");
  story.add(assistant("a1"));
  story.record("r1");
  story.add(assistant("by hand"));
  CHECK(story.shown() == "q1 a1 aside by hand");
}

TEST_CASE("beside other programs a word that no run was handed stays where it is") {
  Story story;
  story.input("r1", {story.word("q1")}, "", R"(,"besideOthers":true)");
  story.word("aside");
  story.add(assistant("a1"));
  story.record("r1");
  CHECK(story.shown() == "q1 aside a1");
}

TEST_CASE("the attempts of a run count as one") {
  Story story;
  const std::string first = story.word("q1");
  story.input("r1", {first});
  story.word("aside");
  story.add(assistant("half"));
  story.record("r1", R"(,"retried":true)");
  CHECK(story.shown() == "q1 half aside");
  story.input("r2", {first}, "r1");
  story.add(assistant("a1"));
  story.record("r2");
  CHECK(story.shown() == "q1 half a1 aside");
}

TEST_CASE("a run is not shown what came later, and its next attempt what it had written") {
  Story story;
  story.add(user("old"));
  const std::string waits = story.word("waits");
  const std::string first = story.word("q1");
  story.input("r1", {first});
  CHECK(story.shown({.waiting = {waits}, .run = "r1"}) == "old q1");
  story.word("aside");
  story.add(assistant("half"));
  story.record("r1", R"(,"retried":true)");
  // Meanwhile another run answers what waits.
  story.input("other", {waits});
  story.add(assistant("for another"));
  story.record("other");
  story.input("r2", {first}, "r1");
  CHECK(story.shown({.run = "r2"}) == "old q1 half Continue.");
  story.input("r2", {story.word("steered")}, "r1");
  CHECK(story.shown({.run = "r2"}) == "old q1 half steered");
  CHECK(story.shown({.run = "r1"}) == "old q1 half steered");
  CHECK(story.shown() == "old q1 half waits for another steered aside");
}

TEST_CASE("a run is not shown a word whose run ended without having begun behind its first input") {
  Story story;
  const std::string waits = story.word("waits");
  const std::string first = story.word("q1");
  story.input("r1", {first});
  story.record("r1", R"(,"retried":true)");
  story.dropped("w", {waits});
  story.input("r2", {first}, "r1");
  CHECK(story.shown({.run = "r2"}) == "q1");
  CHECK(story.shown() == "waits q1");
}

TEST_CASE("words that a hook has blocked are not shown") {
  Story story;
  story.add(assistant("hello"));
  story.dropped("w", {story.word("secret")}, R"(,"error":{"code":"hook_blocked","message":"no"})");
  CHECK(story.shown() == "hello");
}

TEST_CASE("an input of a run is shown, however blank it is") {
  Story story;
  story.word(" ");
  const std::string first = story.word("");
  story.input("r1", {first});
  CHECK(story.shown() == "(empty message)");
}

TEST_CASE("a checkpoint keeps by the order of runs, and what the active run was handed") {
  Story story;
  const std::string first = story.word("q1");
  story.input("r1", {first});
  const std::string second = story.word("q2");
  const std::string answer = story.add(assistant("a1"));
  story.record("r1");
  story.input("r2", {second});
  story.add(assistant("a2"));
  story.record("r2");
  Conversation conversation;
  conversation.before = {story.lines.begin() + 2, story.lines.end()};  // from q2 on in the file
  conversation.checkpoint =
      line_of(story.lines.size(),
              fmt::format(R"({{"summary":"S","firstKeptEntryId":"{0}","details":{{"firstShown":"{0}"}}}})", second),
              "compaction");
  put_in_order(conversation, {});
  std::vector<std::string> ids;
  for (const Line& line : conversation.before)
    if (line.type == "message") ids.push_back(line.id);
  CHECK(ids == std::vector<std::string>{second, "e6"});
  CHECK(answer == "e3");
}

namespace {

// A session with runners, at random: what the daemon would write.
class Life {
 public:
  explicit Life(unsigned seed) : random_(seed) {}

  void step() {
    switch (draw(11)) {
      case 0:
      case 1:
        return come();
      case 2:
        return active_ ? say() : start();
      case 3:
        return active_ ? say() : start();
      case 4:
        return active_ ? end(false) : start();
      case 5:
        return active_ ? call_tool() : answer();
      case 6:
        return active_ && draw(3) == 0 ? end(true) : answer();
      case 7:
        if (active_) return steer();
        return;
      case 8:
        return drop();
      case 9:
        if (!active_) post();
        return;
      default:
        story_.add(synthetic("a warning of the daemon"));
    }
  }

  Story& story() { return story_; }
  OrderAsked asked() const {
    OrderAsked asked;
    for (const Waiting& run : queue_) asked.waiting.insert(asked.waiting.end(), run.input.begin(), run.input.end());
    if (active_) asked.active = active_->input;
    return asked;
  }
  std::string active() const { return active_ ? active_->id : ""; }
  std::string retry_of() const { return active_ ? active_->retry_of : ""; }

 private:
  struct Waiting {
    std::string id{}, retry_of{};
    std::vector<std::string> input{};
  };

  unsigned draw(unsigned below) { return std::uniform_int_distribution<unsigned>(0, below - 1)(random_); }
  std::string text() { return std::string(1 + draw(40), 'w'); }

  void come() {
    const std::string id = story_.word(draw(20) == 0 ? "" : text());
    if (draw(3) == 0) return;  // nobody is to answer it
    if (!queue_.empty() && queue_.back().retry_of.empty() && draw(2) == 0)
      queue_.back().input.push_back(id);
    else
      queue_.push_back({.id = next(), .input = {id}});
  }
  std::string next() { return fmt::format("r{}", ++runs_); }
  void begin(Waiting run) {
    story_.input(run.id, run.input, run.retry_of);
    active_ = std::move(run);
    calls_.clear();
  }
  void start() {
    if (queue_.empty()) return;
    Waiting run = std::move(queue_.front());
    queue_.pop_front();
    begin(std::move(run));
  }
  // A run that is posted starts although others wait.
  void post() {
    Waiting run{.id = next()};
    if (draw(2) == 0) run.input.push_back(story_.word(text()));
    begin(std::move(run));
  }
  void say() {
    const bool reports = draw(2) == 0;
    story_.add(said("assistant", text(), reports ? fmt::format(R"(,"usage":{{"input":{}}})", 100 + draw(900)) : ""));
  }
  void answer() {
    if (calls_.empty()) return;
    story_.add(result(calls_.back(), text()));
    calls_.pop_back();
  }
  void call_tool() {
    calls_.push_back(fmt::format("c{}", ++calls_made_));
    story_.add(call(calls_.back()));
  }
  void steer() {
    std::vector<std::string> ids{story_.word(text())};
    if (draw(2) == 0) story_.word(text());
    story_.input(active_->id, ids, active_->retry_of);
    active_->input.push_back(ids.front());
  }
  void end(bool retried) {
    if (retried && draw(2) == 0) story_.add(said("assistant", text(), R"(,"state":"interrupted")"));
    story_.record(active_->id, retried ? R"(,"retried":true)" : "");
    if (retried) queue_.push_front({.id = next(), .retry_of = active_->id, .input = active_->input});
    active_.reset();
  }
  void drop() {
    if (queue_.empty() || draw(3) != 0) return;
    const std::string retry =
        queue_.back().retry_of.empty() ? "" : fmt::format(R"(,"retryOf":"{}")", queue_.back().retry_of);
    const std::string_view blocked = draw(4) == 0 ? R"(,"error":{"code":"hook_blocked"})" : "";
    story_.dropped(queue_.back().id, queue_.back().input, retry + std::string(blocked));
    queue_.pop_back();
  }

  std::mt19937 random_;
  Story story_{};
  std::deque<Waiting> queue_{};
  std::optional<Waiting> active_{};
  std::vector<std::string> calls_{};
  int runs_ = 0, calls_made_ = 0;
};

std::string numbers_of(const Meter& meter) {
  return fmt::format("{} tokens, {} messages, {} turns", meter.used(), meter.all_messages(), meter.all_turns());
}

}  // namespace

TEST_CASE("the meter counts what the view shows, entry by entry, in random lives of a session") {
  int anew = 0;
  int counted = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Life life(seed);
    Meter meter;
    std::size_t taken = 0;
    for (int step = 0; step < 40; ++step) {
      life.step();
      for (; taken < life.story().lines.size(); ++taken) add(meter, life.story().lines[taken], 3, true);
      if (step % 3 != 0) continue;
      const OrderAsked asked = life.asked();
      const Conversation conversation = life.story().read(asked);
      ++counted;
      if (meter.misplaced || !meter.counts_as_last(asked.waiting)) {
        meter = measure(conversation, 3);
        ++anew;
      }
      const auto kept = meter_of(to_text(meter));
      REQUIRE(kept.has_value());
      meter = *kept;
      const View view = view_of(conversation, {.prune = Prune::off}, {});
      CAPTURE(seed);
      CAPTURE(step);
      REQUIRE(meter.used() == view.used);
      REQUIRE(numbers_of(meter) == numbers_of(measure(conversation, 3)));
    }
  }
  CHECK(anew < counted / 2);
}

TEST_CASE("what two attempts of a run are shown differs by what the first has written") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Life life(seed);
    std::map<std::string, std::vector<std::string>> shown;  // ids, by the first attempt's id
    std::string before;
    std::map<std::string, std::string> first_of;
    for (int step = 0; step < 60; ++step) {
      life.step();
      const std::string run = life.active();
      if (run.empty() || run == before) continue;
      before = run;
      OrderAsked asked = life.asked();
      asked.run = run;
      std::vector<std::string> ids;
      const Conversation conversation = life.story().read(asked);
      for (const Line& line : conversation.after)
        if (line.type == "message") ids.push_back(line.id);
      const std::string& first = first_of[run] = life.retry_of().empty() ? run : first_of[life.retry_of()];
      if (first == run) {
        shown[run] = ids;
        continue;
      }
      const std::vector<std::string>& then = shown[first];
      CAPTURE(seed);
      CAPTURE(step);
      REQUIRE(ids.size() >= then.size());
      const std::vector<std::string> beginning(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(then.size()));
      CHECK(json::array_of(beginning) == json::array_of(then));
    }
  }
}

}  // namespace sessiond::context
