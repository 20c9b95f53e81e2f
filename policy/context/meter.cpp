#include "policy/context/meter.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "policy/context/doom_loop.hpp"
#include "policy/context/tool_pairs.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

// Returns the tokens that a reply reported, all of them. Nothing if it reported none, or only zeros.
std::optional<std::int64_t> reported_by(const Entry& entry) {
  if (!entry.usage) return {};
  return entry.usage->used == 0 ? std::nullopt : std::optional(entry.usage->used);
}

// The tokens of a summary are given to begin().
bool is_of_summary(const Entry& entry) { return entry.summary && entry.role != Role::system; }

constexpr std::string_view spelling_names[] = {"pi", "openai", "anthropic"};

std::string strings(const std::vector<std::string>& texts) { return json::array_of(texts); }

std::string to_text(const LooseWords& words) {
  std::string known = "[";
  for (const LooseWords::Word& word : words.known()) {
    if (known.size() > 1) known += ',';
    json::ObjectWriter one(known);
    one.integer("id", std::bit_cast<std::int64_t>(word.id));
    one.integer("tokens", word.tokens);
    one.boolean("putLast", word.put_last);
    one.close();
  }
  json::ObjectWriter out;
  out.raw("known", known + "]");
  out.integer("tokens", words.tokens());
  out.integer("count", words.count());
  return out.text();
}

LooseWords words_of(std::string_view object) {
  std::vector<LooseWords::Word> known;
  for (const std::string_view word : json::elements(json::find(object, "known").value_or("[]")))
    known.push_back({.id = std::bit_cast<std::uint64_t>(json::int_at(word, "id").value_or(0)),
                     .tokens = json::int_at(word, "tokens").value_or(0),
                     .put_last = json::find(word, "putLast") == "true"});
  return LooseWords::resumed(std::move(known), json::int_at(object, "tokens").value_or(0),
                             json::int_at(object, "count").value_or(0));
}

std::vector<std::string> strings_at(std::string_view object, std::string_view name) {
  std::vector<std::string> out;
  for (const std::string_view text : json::elements(json::find(object, name).value_or("[]")))
    out.push_back(json::as_string(text).value_or(""));
  return out;
}

}  // namespace

void Meter::begin(std::string id, std::int64_t at, std::int64_t tokens) {
  *this = {.checkpoint = std::move(id), .checkpoint_at = at, .estimated = tokens};
}

std::uint64_t LooseWords::number_of(std::string_view id) {
  std::uint64_t number = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : id) number = (number ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return number;
}

void LooseWords::add(Word word) {
  tokens_ = policy::add_counted(tokens_, word.tokens);
  ++count_;
  if (known_.size() == most_loose) known_.erase(known_.begin());
  known_.push_back(word);
}

std::optional<LooseWords::Word> LooseWords::take(std::string_view id) {
  const auto found = std::ranges::find(known_, number_of(id), &Word::id);
  if (found == known_.end()) return {};
  const Word word = *found;
  known_.erase(found);
  tokens_ -= word.tokens;
  --count_;
  return word;
}

bool LooseWords::contains(std::string_view id) const {
  return std::ranges::find(known_, number_of(id), &Word::id) != known_.end();
}

bool LooseWords::is_put_last(std::string_view id) const {
  const auto found = std::ranges::find(known_, number_of(id), &Word::id);
  return found != known_.end() && found->put_last;
}

LooseWords LooseWords::resumed(std::vector<Word> known, std::int64_t tokens, std::int64_t count) {
  LooseWords words;
  words.known_ = std::move(known);
  words.tokens_ = tokens;
  words.count_ = count;
  return words;
}

bool Meter::counts_as_last(const std::vector<std::string>& waiting) const {
  return std::ranges::all_of(waiting, [this](const std::string& id) { return last.contains(id) || held.contains(id); });
}

void Meter::count_words(std::int64_t tokens, std::int64_t count, bool of_people) {
  estimated = policy::add_counted(estimated, tokens);
  interrupted.reset();
  calls.follow(false);
  if (!of_people) {
    after_person = false;
    return;
  }
  messages += count;
  if (!after_person) ++turns;
  turn = calls.messages();
  repeated = {};
  doom = {};
  after_person = true;
}

void Meter::take_note(const RunNote& note) {
  runs.take(note);
  for (const std::string& id : note.words) {
    if (note.what == RunNote::What::record) {
      misplaced = misplaced || note.blocked || last.is_put_last(id) || held.is_put_last(id);
    } else if (auto word = held.take(id)) {
      count_words(word->tokens, 1, true);
      last.add(*word);
    } else if (note.retry_of.empty() && !last.contains(id)) {
      misplaced = true;
    }
  }
  if (runs.any() || held.count() == 0) return;
  count_words(held.tokens(), held.count(), true);
  for (const LooseWords::Word& word : held.known()) last.add(word);
  held = {};
}

Taken Meter::add(std::string_view id, const Entry& entry, std::int64_t doom_count, bool counts_usage, bool put_last) {
  if (entry.retries() && interrupted) {
    estimated -= *std::exchange(interrupted, {});
    --messages;
    after_person = person_before;
    calls.follow(follows_before);
  }
  if (entry.note) take_note(*entry.note);
  misplaced = misplaced || !entry.dropped.empty();
  if (entry.role == Role::none || is_of_summary(entry) || entry.fit == Fit::left_out) return {};
  if (entry.role == Role::system) {
    estimated = policy::add_counted(estimated, entry.tokens);
    return {};
  }
  if (entry.is_word()) {
    const LooseWords::Word word{.id = LooseWords::number_of(id), .tokens = entry.tokens, .put_last = put_last};
    if (entry.person && runs.any()) {
      held.add(word);
    } else {
      count_words(entry.tokens, 1, entry.person);
      if (!entry.person) last = {};  // it parts the turns of those before it from what comes
      last.add(word);
    }
    return {};
  }
  const bool waits = !entry.calls.empty() && calls.has_open(turn);
  interrupted.reset();
  if (entry.interrupted && !entry.synthetic) {
    interrupted = entry.tokens;
    person_before = after_person;
    follows_before = calls.follows();
  }
  Taken taken = calls.take(entry);
  if (const auto tokens = counts_usage ? reported_by(entry) : std::nullopt) {
    reported = tokens;
    estimated = 0;
    calls.each([](KeptCall& call) { call.counted = 0; });
  } else {
    estimated = policy::add_counted(estimated, taken.tokens(entry));
    for (const Owner& owner : taken.owners) estimated -= owner.is_shown() ? owner.counted : 0;
  }
  if (!taken.shows(entry)) return taken;
  last = {};
  if (!entry.synthetic) ++messages;
  const bool person = entry.person && !taken.answers_any();  // else it belongs to the turn of the call
  if (person) {
    if (!after_person) ++turns;
    turn = calls.messages();
    repeated = {};
    doom = {};
  }
  after_person = person;
  if (entry.calls.empty()) return taken;
  calls.each([this](KeptCall& call) {
    if (call.message + 1 != calls.messages()) return;
    call.counted = interrupted_tokens;
    estimated = policy::add_counted(estimated, interrupted_tokens);
  });
  if (!waits) doom = {};  // the warning was given when the last call had its result
  for (const ToolCall& call : entry.calls) {
    if (entry.calls.size() > most_compared)
      repeated = {};
    else if (auto loop = repeat(repeated, call, doom_count))
      doom = std::move(loop);
  }
  return taken;
}

std::optional<DoomLoop> Meter::take_doom() {
  if (calls.has_open(turn) || calls.forgot_since(turn)) return {};
  return std::exchange(doom, {});
}

namespace {
bool reaches(std::int64_t used, std::int64_t window, PerMille share) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 1000;  // no window is so large
  return std::min(used, most) * 1000 >= std::min(window, most) * share;
}
}  // namespace

bool is_full(std::int64_t used, std::int64_t window, const CompactionSettings& settings) {
  return reaches(used, window, settings.force);
}

Due due(const Meter& meter, std::int64_t window, const CompactionSettings& settings, bool exceeded) {
  const std::int64_t used = meter.used();
  if (exceeded || is_full(used, window, settings)) return {.compaction = true, .reason = "window_full"};
  if (!reaches(used, window, settings.threshold)) return {};
  if (meter.all_messages() < settings.min_messages) return {.reason = "too_few_messages"};
  if (meter.all_turns() <= settings.keep_turns) return {.reason = "too_few_turns"};
  return {.compaction = true, .reason = "due"};
}

std::string to_text(const Meter& meter) {
  json::ObjectWriter out;
  out.string("checkpoint", meter.checkpoint);
  out.integer("checkpointAt", meter.checkpoint_at);
  out.integer("branches", static_cast<std::int64_t>(meter.branches));
  out.integer("messages", meter.messages);
  out.integer("turns", meter.turns);
  out.boolean("afterPerson", meter.after_person);
  if (meter.interrupted) out.integer("interrupted", *meter.interrupted);
  out.boolean("personBefore", meter.person_before);
  out.boolean("followsBefore", meter.follows_before);
  if (meter.reported) out.integer("reported", *meter.reported);
  out.integer("estimated", meter.estimated);
  std::string calls = "[";
  for (const KeptCall& call : meter.calls.open(true)) {
    if (calls.size() > 1) calls += ',';
    json::ObjectWriter one(calls);
    one.string("id", call.id);
    one.string("name", call.name);
    one.string("spelling", spelling_names[static_cast<std::size_t>(call.spelling)]);
    one.integer("message", static_cast<std::int64_t>(call.message));
    one.integer("place", static_cast<std::int64_t>(call.place));
    one.boolean("answered", call.answered);
    one.integer("counted", call.counted);
    one.close();
  }
  out.raw("calls", calls + "]");
  out.integer("withCalls", static_cast<std::int64_t>(meter.calls.messages()));
  out.boolean("follows", meter.calls.follows());
  out.integer("forgot", static_cast<std::int64_t>(meter.calls.forgot()));
  out.integer("turn", static_cast<std::int64_t>(meter.turn));
  out.string("repeated", meter.repeated.call);
  out.string("tool", meter.repeated.tool);
  out.integer("count", meter.repeated.count);
  out.raw("ids", strings(meter.repeated.ids));
  std::string open = "[";
  for (const OpenRuns::Open& run : meter.runs.all()) {
    if (open.size() > 1) open += ',';
    json::ObjectWriter one(open);
    one.string("run", run.run);
    one.boolean("waits", run.waits);
    one.boolean("overtaken", run.overtaken);
    one.close();
  }
  out.raw("runs", open + "]");
  out.raw("held", to_text(meter.held));
  out.raw("last", to_text(meter.last));
  if (meter.doom) {
    out.string("doomTool", meter.doom->tool);
    out.integer("doomCount", meter.doom->count);
    out.raw("doomIds", strings(meter.doom->call_ids));
  }
  return out.text();
}

std::optional<Meter> meter_of(std::string_view text) {
  if (!json::check(text) || !text.starts_with('{')) return {};
  const auto number = [text](std::string_view name) { return json::int_at(text, name).value_or(0); };
  const auto string = [text](std::string_view name) { return json::string_at(text, name).value_or(""); };
  Meter meter{.checkpoint = string("checkpoint"),
              .checkpoint_at = number("checkpointAt"),
              .branches = static_cast<std::uint64_t>(number("branches")),
              .messages = number("messages"),
              .turns = number("turns"),
              .after_person = json::find(text, "afterPerson") == "true",
              .interrupted = json::int_at(text, "interrupted"),
              .person_before = json::find(text, "personBefore") == "true",
              .follows_before = json::find(text, "followsBefore") == "true",
              .reported = json::int_at(text, "reported"),
              .estimated = number("estimated"),
              .turn = static_cast<std::uint64_t>(number("turn")),
              .repeated = {.call = string("repeated"),
                           .count = number("count"),
                           .ids = strings_at(text, "ids"),
                           .tool = string("tool")}};
  std::vector<KeptCall> calls;
  for (const std::string_view call : json::elements(json::find(text, "calls").value_or("[]"))) {
    const auto spelling = std::ranges::find(spelling_names, json::string_at(call, "spelling").value_or("pi"));
    if (spelling == std::ranges::end(spelling_names)) return {};
    calls.push_back({.id = json::string_at(call, "id").value_or(""),
                     .name = json::string_at(call, "name").value_or(""),
                     .spelling = static_cast<Spelling>(spelling - std::ranges::begin(spelling_names)),
                     .message = static_cast<std::uint64_t>(json::int_at(call, "message").value_or(0)),
                     .place = static_cast<std::size_t>(json::int_at(call, "place").value_or(0)),
                     .answered = json::find(call, "answered") == "true",
                     .counted = json::int_at(call, "counted").value_or(0)});
  }
  meter.calls.resume(calls, static_cast<std::uint64_t>(number("withCalls")), json::find(text, "follows") == "true",
                     static_cast<std::uint64_t>(number("forgot")));
  std::vector<OpenRuns::Open> runs;
  for (const std::string_view run : json::elements(json::find(text, "runs").value_or("[]")))
    runs.push_back({.run = json::string_at(run, "run").value_or(""),
                    .waits = json::find(run, "waits") == "true",
                    .overtaken = json::find(run, "overtaken") == "true"});
  meter.runs = OpenRuns(std::move(runs));
  meter.held = words_of(json::find(text, "held").value_or("{}"));
  meter.last = words_of(json::find(text, "last").value_or("{}"));
  if (json::find(text, "doomTool"))
    meter.doom = {.tool = string("doomTool"), .count = number("doomCount"), .call_ids = strings_at(text, "doomIds")};
  return meter;
}

}  // namespace sessiond::context
