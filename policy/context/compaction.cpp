#include "policy/context/compaction.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <string_view>

#include "policy/context/pruning.hpp"
#include "policy/context/tool_pairs.hpp"
#include "policy/usage.hpp"

namespace sessiond::context {
namespace {

// Returns the seq of the last entry with each id. Foreign programs write several entries with one id, and a checkpoint
// that names it means the last one.
std::map<std::string_view, std::uint64_t> last_by_id(const Conversation& conversation) {
  std::map<std::string_view, std::uint64_t> last;
  for (const std::vector<Line>* lines : {&conversation.system, &conversation.before, &conversation.after})
    for (const Line& line : *lines) {
      std::uint64_t& seq = last[line.id];
      seq = std::max(seq, line.seq);
    }
  return last;
}

std::set<std::string_view> words_of(const OrderAsked& runs) {
  std::set<std::string_view> words(runs.active.begin(), runs.active.end());
  words.insert(runs.waiting.begin(), runs.waiting.end());
  return words;
}

// How many tokens a new summary may be made from. With the last summary they take nine tenths of the window.
std::int64_t most_tokens(const Conversation& conversation, std::int64_t window) {
  const std::int64_t before =
      conversation.checkpoint ? tokens_of(static_cast<std::int64_t>(summary_of(*conversation.checkpoint).size())) : 0;
  return window - window / 10 - before;
}

// How long results, in code points, and all messages, in tokens, may be before they are cut.
struct Lengths {
  std::int64_t result = 0;
  std::optional<std::int64_t> message{};  // nothing: only results are cut
};

// Returns the lengths that are tried, one after another, until what is summarised fits into the window of the model
// that writes the summary. Messages are cut only at the last try: one of them alone may be too long.
std::vector<Lengths> cut_lengths(const PruningSettings& settings, std::int64_t window) {
  const std::int64_t least = 3 * settings.keep_chars;
  std::vector<Lengths> lengths{{.result = std::min(settings.min_chars, std::max(window * 4 / 10, least))}};
  if (lengths.front().result > least) lengths.push_back({.result = least});
  lengths.push_back({.result = least, .message = window / 10});
  return lengths;
}

void shorten(Rows& rows, PruningSettings settings, std::int64_t window, const Lengths& lengths) {
  settings.keep_assistants = 0;
  settings.exclude_tools.clear();
  settings.min_chars = lengths.result;
  std::int64_t used = 0;
  prune(rows, used, {.prune = Prune::soft, .window = window}, std::move(settings));
  if (lengths.message) cut_long(rows, *lengths.message);
}

// Says for each row whether a summary that ends before it would harm a call.
struct Calls {
  std::vector<bool> parted{};  // a result in the row, or behind it, belongs to a call before it: a summary that ends
                               // there would part them, and the result would be left out
  std::vector<bool> open{};    // a call before it has no result yet, and may get one
};

Calls calls_of(const std::vector<Row>& rows, std::size_t live_from) {
  CallBook book;
  std::vector<std::size_t> calls;                                 // the rows with calls
  std::vector<std::size_t> first_call(rows.size(), rows.size());  // of the results of a row
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const Entry& entry = rows[at].entry;
    for (const Owner& owner : book.take(entry).owners)
      if (owner.is_shown()) first_call[at] = std::min(first_call[at], calls[owner.message]);
    if (!entry.calls.empty()) calls.push_back(at);
  }
  Calls out{.parted = std::vector<bool>(rows.size()), .open = std::vector<bool>(rows.size())};
  std::size_t first = rows.size();
  for (std::size_t at = rows.size(); at-- > 0;) {
    first = std::min(first, first_call[at]);
    out.parted[at] = first < at;
  }
  std::size_t first_open = rows.size();
  for (const KeptCall& call : book.open())
    if (calls[call.message] >= live_from) first_open = std::min(first_open, calls[call.message]);
  for (std::size_t at = first_open; at < rows.size(); ++at) out.open[at] = at > first_open;
  return out;
}

// The rows of the words that began the turn of the one at `first`, if that is an answer: from the first up to the
// second. They stay behind a summary of what is before it.
std::pair<std::size_t, std::size_t> opening_of(const std::vector<Row>& rows, std::size_t first) {
  if (rows[first].entry.person) return {first, first};
  std::size_t begin = first;
  while (begin > 0 && !begins_turn(rows, begin)) --begin;
  std::size_t end = begin;
  while (end < first && rows[end].entry.person) ++end;
  return {begin, end};
}

// Where a summary can end that fits into nine tenths of the window.
struct Candidate {
  // Where a turn begins; at an answer within one; where a turn begins and a result is parted from its call; between two
  // words.
  enum class Kind : std::uint8_t { turn, answer, parting_turn, word };
  std::size_t at = 0;
  Kind kind = Kind::turn;
};

class Planner {
 public:
  // `shown`: the tokens of each row as it is shown, with long results whole.
  Planner(const Conversation& conversation, const Rows& rows, std::span<const std::int64_t> shown,
          const CompactionSettings& settings, const PlanAsked& asked)
      : rows_(rows.all),
        shown_(shown),
        settings_(settings),
        asked_(asked),
        last_(last_by_id(conversation)),
        calls_(calls_of(rows_, live_from())),
        cut_(conversation.cut),
        least_(asked.is_full ? std::min(settings.max_tokens, asked.window / 10) : 0),
        most_(most_tokens(conversation, asked.window)) {}

  // Returns the index of the first row that is kept; nothing: there is nothing to compact.
  std::optional<std::size_t> first_kept() {
    find_candidates();
    std::vector<std::size_t> latest;  // where what is kept may begin at the latest, in the order of preference
    if (const auto ordinary = cut_ ? std::nullopt : keeping_turns()) latest.push_back(*ordinary);
    // A model that loses its last messages does its last steps again.
    if (asked_.is_full || cut_)
      for (const int answers : {3, 2, 1, 0}) latest.push_back(keeping_answers(answers));
    using enum Candidate::Kind;
    const std::vector<std::vector<Candidate::Kind>> worse_and_worse{{turn, answer}, {parting_turn}, {word}};
    for (const auto& kinds : worse_and_worse)
      for (const std::size_t most : latest)
        for (const Candidate::Kind kind : kinds)
          if (const auto found = last_of(kind, most)) return found;
    return {};
  }

 private:
  // Where the work begins whose calls may get a result yet: that of the active run, else the turn of the last answer.
  std::size_t live_from() const {
    for (std::size_t at = 0; at < rows_.size(); ++at)
      if (std::ranges::find(asked_.runs.active, rows_[at].id) != asked_.runs.active.end()) return at;
    std::size_t from = rows_.size();
    while (from > 0 && rows_[from - 1].entry.person) --from;
    while (from > 0 && !begins_turn(rows_, --from)) {
    }
    return from;
  }

  // Finds where a summary can end, in order.
  void find_candidates() {
    struct Sum {
      std::size_t count = 0;
      std::int64_t tokens = 0, shown = 0;
    };
    const auto add = [this](Sum& sum, std::size_t at) {
      ++sum.count;
      sum.tokens = policy::add_counted(sum.tokens, rows_[at].entry.tokens);
      sum.shown = policy::add_counted(sum.shown, shown_[at]);
    };
    const std::set<std::string_view> waiting(asked_.runs.waiting.begin(), asked_.runs.waiting.end());
    const std::set<std::string_view> active(asked_.runs.active.begin(), asked_.runs.active.end());
    Sum all, of_run, opening,
        opening_of_run;  // rows before this one; words of the active run; words that began its turn
    bool opens = false;  // only words stand between the beginning of the turn and this row
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      const Row& row = rows_[at];
      const bool begins = begins_turn(rows_, at);
      const bool answers = row.entry.role == Role::assistant && !row.entry.synthetic && !row.entry.interrupted;
      if (begins) opening = opening_of_run = {};
      opens = begins || (opens && row.entry.person);
      const Sum stays = opens ? Sum() : opening;  // and the other words of the run
      const Sum of_opening = opens ? Sum() : opening_of_run;
      const std::int64_t told = all.tokens - stays.tokens;
      const std::int64_t freed = all.shown - stays.shown - (of_run.shown - of_opening.shown);
      const bool takes_any = all.count > stays.count + of_run.count - of_opening.count && freed >= least_;
      const auto kind = begins  ? (calls_.parted[at] ? Candidate::Kind::parting_turn : Candidate::Kind::turn)
                        : opens ? Candidate::Kind::word
                                : Candidate::Kind::answer;
      const bool divides = opens || (answers && !calls_.parted[at]);
      if (divides && takes_any && told <= most_ && !calls_.open[at] && !waiting.contains(row.id) &&
          last_.at(row.id) == row.seq)
        candidates_.push_back({.at = at, .kind = kind});
      add(all, at);
      if (opens) add(opening, at);
      if (!active.contains(row.id)) continue;
      add(of_run, at);
      if (opens) add(opening_of_run, at);
    }
  }

  // Returns where the turns begin that are kept while the window is not full; nothing: there are too few.
  std::optional<std::size_t> keeping_turns() const {
    const auto messages = std::ranges::count_if(rows_, [](const Row& row) { return !row.entry.synthetic; });
    std::size_t first = rows_.size();
    std::int64_t turns = 0;
    while (first > 0 && turns < settings_.keep_turns)
      if (begins_turn(rows_, --first)) ++turns;
    if (messages < settings_.min_messages || first == 0 || turns < settings_.keep_turns) return {};
    return first;
  }

  // Returns where so many of the last messages of the model begin; of none: the end.
  std::size_t keeping_answers(int count) const {
    std::size_t first = rows_.size();
    for (int answers = 0; first > 0 && answers < count;)
      if (rows_[--first].entry.role == Role::assistant) ++answers;
    return first;
  }

  // Returns the last candidate of a kind up to `most`.
  std::optional<std::size_t> last_of(Candidate::Kind kind, std::size_t most) const {
    for (const Candidate& one : candidates_ | std::views::reverse)
      if (one.at <= most && one.kind == kind) return one.at;
    return std::nullopt;
  }

  const std::vector<Row>& rows_;
  std::span<const std::int64_t> shown_;
  const CompactionSettings& settings_;
  const PlanAsked& asked_;
  std::map<std::string_view, std::uint64_t> last_;
  Calls calls_;
  bool cut_ = false;
  std::int64_t least_ = 0;  // tokens that a plan makes room for
  std::int64_t most_ = 0;   // tokens that are told to a summary
  std::vector<Candidate> candidates_{};
};

}  // namespace

std::vector<const Line*> words_before(const Conversation& conversation, std::uint64_t first_kept,
                                      const OrderAsked& runs) {
  std::vector<Repaired> ignored;
  Rows rows = rows_of(conversation, ignored);
  mark_answers(rows);
  const auto found = std::ranges::find(rows.all, first_kept, &Row::seq);
  std::vector<const Line*> words;
  if (found == rows.all.end()) return words;
  const auto first = static_cast<std::size_t>(found - rows.all.begin());
  const auto [begin, end] = opening_of(rows.all, first);
  const std::set<std::string_view> of_runs = words_of(runs);
  std::set<std::uint64_t> seqs;
  for (std::size_t at = 0; at < first; ++at)
    if ((at >= begin && at < end) || of_runs.contains(rows.all[at].id)) seqs.insert(rows.all[at].seq);
  for (const auto* lines : {&conversation.before, &conversation.after})
    for (const Line& line : *lines)
      if (seqs.contains(line.seq)) words.push_back(&line);
  return words;
}

std::optional<CompactionPlan> plan_compaction(const Conversation& conversation, const Settings& settings,
                                              const PlanAsked& asked) {
  for (const Lengths& lengths : cut_lengths(settings.pruning, asked.window)) {
    std::vector<Repaired> ignored;
    Rows rows = rows_of(conversation, ignored);
    std::vector<std::int64_t> shown;
    for (const Row& row : rows.all) shown.push_back(row.entry.tokens);
    shorten(rows, settings.pruning, asked.window, lengths);
    mark_answers(rows);
    const auto first = Planner(conversation, rows, shown, settings.compaction, asked).first_kept();
    if (!first) continue;
    const auto [begin, end] = opening_of(rows.all, *first);
    CompactionPlan plan{.first_kept = rows.all[*first].id, .count = *first - (end - begin)};
    if (conversation.checkpoint) plan.previous_summary = summary_of(*conversation.checkpoint);
    return plan;
  }
  return {};
}

std::optional<Rows> rows_to_summarise(const Conversation& conversation, const Settings& settings,
                                      const std::string& first_kept, std::int64_t window) {
  std::optional<Rows> out;
  for (const Lengths& lengths : cut_lengths(settings.pruning, window)) {
    std::vector<Repaired> ignored;
    Rows rows = rows_of(conversation, ignored);
    shorten(rows, settings.pruning, window, lengths);
    mark_answers(rows);
    std::size_t first = rows.all.size();
    while (first > 0 && rows.all[first - 1].id != first_kept) --first;
    if (first-- == 0) return {};
    const auto [begin, end] = opening_of(rows.all, first);
    const auto at = [&rows](std::size_t index) { return rows.all.begin() + static_cast<std::ptrdiff_t>(index); };
    rows.all.erase(at(first), rows.all.end());
    rows.all.erase(at(begin), at(end));
    std::int64_t tokens = 0;
    for (const Row& row : rows.all) tokens = policy::add_counted(tokens, row.entry.tokens);
    out.emplace(std::move(rows));
    if (tokens <= most_tokens(conversation, window)) break;
  }
  return out;
}

}  // namespace sessiond::context
