#include "policy/context/run_order.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "policy/context/open_runs.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

class RunOrder {
 public:
  RunOrder(std::span<const Mark> marks, const OrderAsked& asked) : marks_(marks), words_(marks.size()), asked_(asked) {
    for (const std::string& id : asked.waiting) queue_.emplace(id, queue_.size());
  }

  Order make() {
    for (std::size_t at = 0; at < marks_.size(); ++at) {
      if (marks_[at].note)
        take(marks_[at]);
      else
        come(at);
    }
    if (under_way_) stretches_.push_back({*under_way_, {.first = begun_at_, .last = Order::end}});
    for (const std::size_t held : held_) words_[held].behind = Order::end;
    const auto asked_run = attempts_.find(asked_.run);
    if (!asked_.run.empty() && asked_run != attempts_.end()) asked_attempts_ = asked_run->second;
    for (std::size_t at = 0; at < marks_.size(); ++at)
      if (!marks_[at].note) place(at);
    leave_out_other_runs();
    return finish();
  }

 private:
  // A run with all its attempts.
  using Attempts = std::size_t;
  struct Handed {
    Attempts attempts = 0;
    std::uint64_t seq = 0;   // of the entry that says it
    std::size_t number = 0;  // among those that it names
  };
  struct Word {
    std::vector<Handed> handed{};
    std::optional<std::uint64_t> behind{};  // the record of the last run that was under way when it came
    std::uint64_t ended = 0;                // the last record of a run that ended with it, before it began
    bool blocked = false;
    bool retold = false;  // as one that a full queue has dropped
  };
  struct Placed {
    Order::Moved moved{};
    bool is_asked = false;   // it stands behind those that no run is to answer,
    std::size_t number = 0;  // in this order
  };

  void come(std::size_t at) {
    for (const std::string& id : marks_[at].dropped)
      if (const auto word = latest_.find(id); word != latest_.end()) words_[word->second].retold = true;
    latest_.insert_or_assign(marks_[at].id, at);
    if (marks_[at].person && open_.any()) held_.push_back(at);
  }

  void take(const Mark& mark) {
    const RunNote& note = *mark.note;
    open_.take(note);
    if (note.what == RunNote::What::input)
      hand_over(mark, note);
    else
      end(mark, note);
    if (open_.any()) return;
    for (const std::size_t held : held_) words_[held].behind = mark.seq;
    held_.clear();
  }

  void hand_over(const Mark& mark, const RunNote& note) {
    auto known = attempts_.find(note.run_id);
    if (known == attempts_.end()) {
      const auto before = attempts_.find(note.retry_of);
      const bool is_first = note.retry_of.empty() || before == attempts_.end();
      known = attempts_.emplace(note.run_id, is_first ? first_.size() : before->second).first;
      if (is_first) first_.push_back(mark.seq);
    }
    if (under_way_ != known->second) {
      if (under_way_) stretches_.push_back({*under_way_, {.first = begun_at_, .last = mark.seq - 1}});
      under_way_ = known->second;
      begun_at_ = mark.seq;
    }
    for (std::size_t number = 0; number < note.words.size(); ++number)
      if (const auto word = latest_.find(note.words[number]); word != latest_.end())
        words_[word->second].handed.push_back({.attempts = known->second, .seq = mark.seq, .number = number});
  }

  void end(const Mark& mark, const RunNote& note) {
    for (const std::string& id : note.words) {
      const auto word = latest_.find(id);
      if (word == latest_.end()) continue;
      words_[word->second].ended = mark.seq;
      words_[word->second].blocked = note.blocked;
    }
    const auto known = attempts_.find(note.run_id);
    if (!under_way_ || known == attempts_.end() || known->second != *under_way_) return;
    stretches_.push_back({*under_way_, {.first = begun_at_, .last = mark.seq}});
    under_way_.reset();
  }

  void place(std::size_t at) {
    const Mark& mark = marks_[at];
    const Word& word = words_[at];
    const auto queued = queue_.find(mark.id);
    const auto is_latest = [&] { return latest_.at(mark.id) == at; };
    const bool waits = queued != queue_.end() && is_latest();
    const bool is_retold = word.retold && word.handed.empty() && !waits;
    if (word.blocked || is_retold || (!asked_.run.empty() && is_unknown_to_run(mark, word, waits))) {
      order_.left_out.push_back({mark.seq, mark.seq});
      return;
    }
    if (!word.handed.empty()) {
      order_.words.push_back(mark.id);
      const Handed& first = word.handed.front();
      placed_.push_back({{.seq = mark.seq, .before = first.seq}, true, first.number});
    } else if (waits) {
      placed_.push_back({{.seq = mark.seq}, true, queued->second});
    } else if (word.behind) {
      // A run under way before this one may go on behind it: its first attempt was shown the word, and so are the next.
      const std::uint64_t last = asked_attempts_ ? first_[*asked_attempts_] : Order::end;
      placed_.push_back({{.seq = mark.seq, .before = std::min(*word.behind, last)}, false, at});
    }
  }

  // Returns whether the run was not shown the word at its first attempt, and was not handed it later.
  bool is_unknown_to_run(const Mark& mark, const Word& word, bool waits) const {
    if (!mark.person && word.handed.empty()) return false;
    const auto is_own = [this](const Handed& handed) { return handed.attempts == asked_attempts_; };
    if (asked_attempts_ && std::ranges::any_of(word.handed, is_own)) return false;
    if (waits) return true;
    if (!asked_attempts_) return false;  // it began before runs were told of in transcripts
    const std::uint64_t first = first_[*asked_attempts_];
    return mark.seq > first || word.ended > first ||
           std::ranges::any_of(word.handed, [first](const Handed& handed) { return handed.seq > first; });
  }

  // Leaves out what other runs have written since the first input of this one: its first attempt was not shown it.
  void leave_out_other_runs() {
    if (!asked_attempts_) return;
    for (const auto& [attempts, stretch] : stretches_)
      if (attempts != *asked_attempts_ && stretch.last > first_[*asked_attempts_]) order_.left_out.push_back(stretch);
  }

  Order finish() {
    std::ranges::sort(placed_, {},
                      [](const Placed& one) { return std::tuple(one.moved.before, one.is_asked, one.number); });
    for (const Placed& one : placed_) order_.moved.push_back(one.moved);
    std::ranges::sort(order_.left_out, {}, &Order::Stretch::first);
    return std::move(order_);
  }

  std::span<const Mark> marks_;
  std::vector<Word> words_;  // of each mark
  const OrderAsked& asked_;
  std::map<std::string_view, std::size_t> queue_{};
  std::map<std::string_view, std::size_t> latest_{};  // the last mark with each id
  OpenRuns open_{};
  std::vector<std::size_t> held_{};                  // words that came while a run was under way
  std::map<std::string_view, Attempts> attempts_{};  // by run id
  std::vector<std::uint64_t> first_{};               // input of each run with its attempts
  std::optional<Attempts> under_way_{};
  std::uint64_t begun_at_ = 0;
  std::vector<std::pair<Attempts, Order::Stretch>> stretches_{};  // in which runs were under way
  std::optional<Attempts> asked_attempts_{};
  std::vector<Placed> placed_{};
  Order order_{};
};

// The id of the first entry, in the order of runs, that a checkpoint of ours keeps. Nothing: it keeps by the file.
std::optional<std::string> first_shown_of(const Conversation& conversation) {
  if (!conversation.checkpoint) return {};
  return Kept::read(conversation.checkpoint->body).first_shown;
}

// Returns whether entries may stand elsewhere than in the file.
bool has_order(const Conversation& conversation, const OrderAsked& asked) {
  const auto tells_of_run = [](const Line& line) { return line.type == "custom" && line.body.contains("sessiond."); };
  return !asked.waiting.empty() || first_shown_of(conversation) ||
         std::ranges::any_of(conversation.before, tells_of_run) ||
         std::ranges::any_of(conversation.after, tells_of_run);
}

std::vector<Mark> marks_of(const std::vector<Line>& lines) {
  std::vector<Mark> marks;
  for (const Line& line : lines)
    if (auto mark = mark_of(line)) marks.push_back(*std::move(mark));
  return marks;
}

// Returns the ids of the words that the run of the view was handed. Without such a run: what the run was handed that is
// under way behind the last entry.
std::set<std::string_view> words_asked(const std::vector<Mark>& marks, const OrderAsked& asked) {
  std::set<std::string_view> words;
  std::string_view run = asked.run;
  for (const Mark& mark : marks) {
    if (!mark.note || (!asked.run.empty() && mark.note->run_id != asked.run)) continue;
    if (mark.note->what == RunNote::What::record && asked.run.empty()) {
      if (mark.note->run_id == run) words.clear();
    } else if (mark.note->what == RunNote::What::input) {
      if (mark.note->run_id != run) words.clear();
      run = mark.note->run_id;
      words.insert(mark.note->words.begin(), mark.note->words.end());
    }
  }
  return words;
}

// Returns the index of the first entry, in order, that the checkpoint has not summarised.
std::size_t first_shown(const Conversation& conversation) {
  const auto id = first_shown_of(conversation);
  if (!id) return 0;
  const auto& before = conversation.before;
  const auto found = std::ranges::find(before.rbegin(), before.rend(), *id, &Line::id);
  if (found != before.rend()) return static_cast<std::size_t>(before.rend() - found) - 1;
  // It waited, and stands behind the checkpoint now.
  const bool is_behind = std::ranges::find(conversation.after, *id, &Line::id) != conversation.after.end();
  return is_behind ? before.size() : 0;
}

}  // namespace

Kept Kept::read(std::string_view checkpoint) {
  Kept out;
  const auto details = json::find(checkpoint, "details");
  if (!details || !details->starts_with('{')) return out;
  const auto ids = [&details](std::string_view name) {
    std::vector<std::string> all;
    const auto list = json::find(*details, name);
    if (list && list->starts_with('['))
      for (const std::string_view id : json::elements(*list)) all.push_back(json::as_string(id).value_or(""));
    return all;
  };
  out.first_shown = json::string_at(*details, "firstShown");
  if (!out.first_shown) return out;
  out.words = ids("words");
  out.first_behind_words = json::string_at(*details, "firstBehindWords").value_or("");
  out.runs = ids("runs");
  return out;
}

void Kept::write(json::ObjectWriter& details) const {
  if (first_shown) details.string("firstShown", *first_shown);
  if (!words.empty()) details.raw("words", json::array_of(words));
  if (!first_behind_words.empty()) details.string("firstBehindWords", first_behind_words);
  if (!runs.empty()) details.raw("runs", json::array_of(runs));
}

std::string Kept::without(std::string_view details) {
  return json::apply(details, {.unset = {"firstShown", "words", "firstBehindWords", "runs"}});
}

Order order_of(std::span<const Mark> marks, const OrderAsked& asked) { return RunOrder(marks, asked).make(); }

std::optional<Mark> mark_of(const Line& line) {
  if (line.type != "message" && line.type != "custom") return {};
  if (line.type == "message") {  // of a person, also of one who speaks in place of the agent
    const auto role = json::string_at(line.body, "role");
    if (role != "user" && !(role == "assistant" && json::find(line.body, "author"))) return {};
  }
  const Entry entry = read_entry(line.type, line.body);
  if (!entry.note && !entry.is_word()) return {};
  return Mark{.seq = line.seq, .id = line.id, .person = entry.person, .note = entry.note, .dropped = entry.dropped};
}

std::vector<Order::Stretch> in_order(std::span<const Order::Stretch> path, const Order& order) {
  std::vector<std::uint64_t> moved;
  for (const Order::Moved& one : order.moved) moved.push_back(one.seq);
  std::ranges::sort(moved);
  std::vector<Order::Stretch> out;
  const auto put = [&out](std::uint64_t first, std::uint64_t last) {
    if (!out.empty() && out.back().last + 1 == first)
      out.back().last = last;
    else
      out.push_back({first, last});
  };
  auto next = order.moved.begin();
  auto skipped = moved.begin();
  for (const auto& [first, last] : path) {
    for (std::uint64_t at = first; at <= last;) {
      for (; next != order.moved.end() && next->before <= at; ++next) put(next->seq, next->seq);
      while (skipped != moved.end() && *skipped < at) ++skipped;
      if (skipped != moved.end() && *skipped == at) {
        ++at;
        continue;
      }
      std::uint64_t until = last;
      if (next != order.moved.end()) until = std::min(until, next->before - 1);
      if (skipped != moved.end()) until = std::min(until, *skipped - 1);
      put(at, until);
      at = until + 1;
    }
  }
  for (; next != order.moved.end(); ++next) put(next->seq, next->seq);
  return out;
}

void put_in_order(Conversation& conversation, const OrderAsked& asked) {
  if (!has_order(conversation, asked)) return;
  std::vector<Line> lines = std::move(conversation.before);
  std::ranges::move(conversation.after, std::back_inserter(lines));
  conversation.before.clear();
  conversation.after.clear();
  for (Line& line : lines) line.at = line.seq;
  const std::vector<Mark> marks = marks_of(lines);
  const Order order = order_of(marks, asked);
  const std::set<std::string_view> words(order.words.begin(), order.words.end());
  const std::set<std::string_view> waiting(asked.waiting.begin(), asked.waiting.end());
  const std::set<std::string_view> asked_words = words_asked(marks, asked);
  std::vector<std::pair<std::uint64_t, std::size_t>> moved;  // by seq: the number among the moved ones
  for (const Order::Moved& one : order.moved) moved.emplace_back(one.seq, moved.size());
  std::ranges::sort(moved);
  const auto is_moved = [&moved](std::uint64_t seq) {
    const auto found = std::ranges::lower_bound(moved, seq, {}, &std::pair<std::uint64_t, std::size_t>::first);
    return found != moved.end() && found->first == seq ? std::optional(found->second) : std::nullopt;
  };
  std::vector<Line*> moving(order.moved.size());
  for (Line& line : lines) {
    line.is_input = words.contains(line.id);
    line.is_asked = asked_words.contains(line.id);
    if (const auto number = is_moved(line.seq)) {
      moving[*number] = &line;
      line.at = order.moved[*number].before;
      line.waits = waiting.contains(line.id);
    }
  }
  const std::uint64_t checkpoint = conversation.checkpoint ? conversation.checkpoint->seq : 0;
  const auto put = [&](Line& line) {
    (conversation.checkpoint && line.at < checkpoint ? conversation.before : conversation.after)
        .push_back(std::move(line));
  };
  std::size_t next = 0;
  auto out = order.left_out.begin();
  for (Line& line : lines) {
    for (; next < moving.size() && order.moved[next].before <= line.seq; ++next)
      if (moving[next] != nullptr) put(*moving[next]);
    while (out != order.left_out.end() && out->last < line.seq) ++out;
    const bool is_left_out = out != order.left_out.end() && out->first <= line.seq;
    if (!is_left_out && !is_moved(line.seq)) put(line);
  }
  for (; next < moving.size(); ++next)
    if (moving[next] != nullptr) put(*moving[next]);
  // Entries before the first shown one are summarised. The inputs of the active run are shown all the same, and so are
  // the words that the checkpoint keeps.
  const auto shown = conversation.before.begin() + static_cast<std::ptrdiff_t>(first_shown(conversation));
  std::set<std::string, std::less<>> kept(asked.active.begin(), asked.active.end());
  if (conversation.checkpoint)
    for (std::string& word : Kept::read(conversation.checkpoint->body).words) kept.insert(std::move(word));
  const auto is_summarised = [&kept](const Line& line) { return line.type != "custom" && !kept.contains(line.id); };
  conversation.before.erase(std::remove_if(conversation.before.begin(), shown, is_summarised), shown);
}

}  // namespace sessiond::context
