#include "policy/context/meter.hpp"

#include <algorithm>
#include <utility>

#include "policy/context/doom_loop.hpp"
#include "policy/usage.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::context {
namespace {

// Returns the tokens that a reply reported, all of them. Nothing if it reported none, or only zeros.
std::optional<std::int64_t> reported_by(const Entry& entry) {
  if (!entry.usage) return {};
  const std::int64_t sum = entry.usage->sum();
  return sum == 0 ? std::nullopt : std::optional(sum);
}

// The tokens of a summary are given to begin().
bool is_of_summary(const Entry& entry) { return entry.summary && entry.role != Role::system; }

constexpr std::string_view spelling_names[] = {"pi", "openai", "anthropic"};

std::string strings(const std::vector<std::string>& texts) { return json::array_of(texts); }

std::vector<std::string> strings_at(std::string_view object, std::string_view name) {
  std::vector<std::string> out;
  for (const std::string_view text : json::elements(json::find(object, name).value_or("[]")))
    out.push_back(json::as_string(text).value_or(""));
  return out;
}

}  // namespace

Answered match(const std::vector<OpenCall>& open, const std::vector<ToolResult>& results) {
  Answered out{.calls = std::vector<bool>(open.size()), .results = std::vector<bool>(results.size())};
  if (open.empty()) return out;
  std::vector<std::pair<std::string_view, std::size_t>> by_id;
  by_id.reserve(results.size());
  for (std::size_t at = 0; at < results.size(); ++at) by_id.emplace_back(results[at].call_id, at);
  std::ranges::sort(by_id);
  std::vector<std::size_t> taken(by_id.size());  // of the results with the id that begins here
  for (std::size_t at = 0; at < open.size(); ++at) {
    const auto first = std::ranges::lower_bound(by_id, std::pair(std::string_view(open[at].id), std::size_t{0}));
    const auto place = static_cast<std::size_t>(first - by_id.begin());
    if (first == by_id.end() || place + taken[place] == by_id.size()) continue;
    const auto& [id, result] = by_id[place + taken[place]];
    if (id != open[at].id) continue;
    ++taken[place];
    out.calls[at] = true;
    out.results[result] = true;
  }
  return out;
}

void Meter::begin(std::string id, std::int64_t at, std::int64_t tokens) {
  *this = {.checkpoint = std::move(id), .checkpoint_at = at, .estimated = tokens};
}

void Meter::add(const Entry& entry, std::int64_t doom_count, bool counts_usage) {
  if (entry.role == Role::none || is_of_summary(entry)) return;
  if (const auto tokens = counts_usage ? reported_by(entry) : std::nullopt) {
    reported = tokens;
    estimated = 0;
  } else {
    estimated = policy::add_counted(estimated, entry.tokens);
  }
  if (entry.role == Role::system) return;
  if (!entry.synthetic) ++messages;
  const Answered answered = match(open, entry.results);
  const bool person = entry.person && !answered.any();  // else it belongs to the turn of the call
  std::erase_if(open,
                [&](const OpenCall& call) { return answered.calls[static_cast<std::size_t>(&call - open.data())]; });
  if (person) {
    if (!after_person) ++turns;
    open.clear();
    open_cut = false;
    repeated = {};
    doom = {};
  }
  after_person = person;
  if (!entry.calls.empty() && open.empty()) doom = {};  // the warning was given when the last call had its result
  for (const ToolCall& call : entry.calls) {
    open_cut =
        open_cut || open.size() == most_open || call.id.size() > most_remembered || call.name.size() > most_remembered;
    if (!open_cut) open.push_back({.id = call.id, .name = call.name, .spelling = call.spelling});
    if (entry.calls.size() > most_compared)
      repeated = {};
    else if (auto loop = repeat(repeated, call, doom_count))
      doom = std::move(loop);
  }
}

std::optional<DoomLoop> Meter::take_doom() {
  if (!open.empty() || open_cut) return {};
  return std::exchange(doom, {});
}

std::string_view due(std::int64_t used, std::int64_t messages, std::int64_t turns, std::int64_t window,
                     const CompactionSettings& settings) {
  if (used * 1000 < window * settings.threshold) return "below_threshold";
  if (messages < settings.min_messages) return "too_few_messages";
  if (turns <= settings.keep_turns) return "too_few_turns";
  return "due";
}

std::string to_text(const Meter& meter) {
  json::ObjectWriter out;
  out.string("checkpoint", meter.checkpoint);
  out.integer("checkpointAt", meter.checkpoint_at);
  out.integer("branches", static_cast<std::int64_t>(meter.branches));
  out.integer("messages", meter.messages);
  out.integer("turns", meter.turns);
  out.boolean("afterPerson", meter.after_person);
  if (meter.reported) out.integer("reported", *meter.reported);
  out.integer("estimated", meter.estimated);
  std::string open = "[";
  for (const OpenCall& call : meter.open) {
    if (open.size() > 1) open += ',';
    json::ObjectWriter one(open);
    one.string("id", call.id);
    one.string("name", call.name);
    one.string("spelling", spelling_names[static_cast<std::size_t>(call.spelling)]);
    one.close();
  }
  out.raw("open", open + "]");
  out.boolean("openCut", meter.open_cut);
  out.string("repeated", meter.repeated.call);
  out.string("tool", meter.repeated.tool);
  out.integer("count", meter.repeated.count);
  out.raw("ids", strings(meter.repeated.ids));
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
              .reported = json::int_at(text, "reported"),
              .estimated = number("estimated"),
              .open_cut = json::find(text, "openCut") == "true",
              .repeated = {.call = string("repeated"),
                           .count = number("count"),
                           .ids = strings_at(text, "ids"),
                           .tool = string("tool")}};
  for (const std::string_view call : json::elements(json::find(text, "open").value_or("[]"))) {
    const auto spelling = std::ranges::find(spelling_names, json::string_at(call, "spelling").value_or("pi"));
    if (spelling == std::ranges::end(spelling_names)) return {};
    meter.open.push_back({.id = json::string_at(call, "id").value_or(""),
                          .name = json::string_at(call, "name").value_or(""),
                          .spelling = static_cast<Spelling>(spelling - std::ranges::begin(spelling_names))});
  }
  if (json::find(text, "doomTool"))
    meter.doom = {.tool = string("doomTool"), .count = number("doomCount"), .call_ids = strings_at(text, "doomIds")};
  return meter;
}

}  // namespace sessiond::context
