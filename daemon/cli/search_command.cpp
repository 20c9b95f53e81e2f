#include "daemon/cli/search_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "daemon/cli/asking.hpp"
#include "daemon/cli/table.hpp"
#include "store/clock.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"
#include "store/utf8.hpp"

namespace sessiond::cli {
namespace {

struct Hits {
  std::vector<std::string> all{};  // as the daemon answers them
  bool partial = false;
};

// Asks for pages until there are as many hits as are wanted. A page that had to stop may have fewer, or none.
Answer<Hits> ask_for_hits(const Endpoint& daemon, const SearchCommand& command) {
  constexpr int most_pages = 50;
  std::string path = fmt::format("/v1/search?q={}", in_url(fmt::format("{}", fmt::join(command.words, " "))));
  const auto narrow = [&path](std::string_view name, const std::optional<std::string>& value) {
    if (value) path += fmt::format("&{}={}", name, in_url(*value));
  };
  narrow("agent", command.agent);
  narrow("key", command.key);
  narrow("channel", command.channel);
  narrow("role", command.role);
  narrow("from", command.from);
  if (command.within_ms)
    path += fmt::format("&since={}", std::max<std::int64_t>(store::unix_ms() - *command.within_ms, 0));
  if (command.archived) path += "&archived=any";
  Hits hits;
  std::string cursor;
  for (int pages = 0; pages < most_pages; ++pages) {
    const std::int64_t wanted = command.limit - static_cast<std::int64_t>(hits.all.size());
    TRY(const auto answer, answer_of(daemon, "GET", fmt::format("{}&limit={}{}", path, wanted, cursor)));
    for (const std::string_view hit : json::elements(json::find(answer, "data").value_or("[]")))
      hits.all.emplace_back(hit);
    const std::string next = text_at(json::find(answer, "page").value_or("{}"), "next");
    const bool enough = std::cmp_greater_equal(hits.all.size(), command.limit);
    hits.partial = json::find(answer, "partial") == "true" && (enough || next.empty() || pages + 1 == most_pages);
    if (enough || next.empty()) break;
    cursor = "&cursor=" + in_url(next);
  }
  return hits;
}

// How hits are shown on a terminal.
struct Terminal {
  std::size_t width = 80;
  bool marks = false;  // words are shown in bold

  // Returns a text as a line that leaves `indent` characters of the width.
  std::string line(std::string_view text, std::size_t indent = 0) const {
    const std::string shown = without_controls(store::with_single_spaces(text));
    if (store::count_code_points(shown) <= width - indent) return shown;
    return shown.substr(0, store::code_points_end(shown, width - indent - 1)) + "…";
  }
};

// Returns who said an entry or a hit: the name of its author, if it has one, and its role.
std::string speaker_of(std::string_view said) {
  const std::string_view from = json::find(said, "from").value_or("null");
  std::string name = json::as_string(from).value_or("");
  if (json::kind(from) == json::Kind::object)
    for (const std::string_view member : {"name", "username", "id"})
      if (name.empty()) name = text_at(from, member);
  const std::string role = text_at(said, "role");
  return name.empty() ? role : fmt::format("{} ({})", name, role);
}

// The words of a hit in bold, as its ranges say.
std::string marked_snippet(std::string_view hit, const Terminal& terminal) {
  const std::string text = without_controls(text_at(hit, "snippet"));
  if (!terminal.marks) return text;
  std::string out;
  std::string_view rest = text;
  std::size_t at = 0;
  for (const std::string_view range : json::elements(json::find(hit, "ranges").value_or("[]"))) {
    std::vector<std::size_t> numbers;
    for (const std::string_view number : json::elements(range))
      numbers.push_back(static_cast<std::size_t>(json::as_int(number).value_or(0)));
    if (numbers.size() != 2 || numbers[0] < at) continue;
    const auto [begin, length] = std::pair(numbers[0], numbers[1]);
    const std::size_t before = store::code_points_end(rest, begin - at);
    out += rest.substr(0, before);
    rest.remove_prefix(before);
    const std::size_t end = store::code_points_end(rest, length);
    out += fmt::format("\x1b[1m{}\x1b[0m", rest.substr(0, end));
    rest.remove_prefix(end);
    at = begin + length;
  }
  return out.append(rest);
}

// A hit's session as sessions of its agent are named, and where in it.
std::string place_of(std::string_view hit) {
  std::string place = text_at(hit, "key");
  if (const std::string topic = text_at(hit, "topic"); !topic.empty()) place += " topic " + topic;
  if (!text_at(hit, "archive").empty()) place += " (archived)";
  if (const auto seq = json::int_at(hit, "seq")) place += fmt::format(" #{}", *seq);
  return place;
}

// The messages about a hit, those before it and those behind it, each a line. A name or a label has none; so has a hit
// that is gone by now.
struct Neighbours {
  std::string before{}, behind{};
};
Neighbours neighbours_of(const Endpoint& daemon, std::string_view hit, std::int64_t count, const Terminal& terminal) {
  const auto seq = json::int_at(hit, "seq");
  const std::string archive = text_at(hit, "archive");
  if (!seq || count == 0) return {};
  std::string path = path_of({.key = text_at(hit, "key"), .agent = text_at(hit, "agent")}) +
                     fmt::format("/messages?view=chat&around={}&limit={}", in_url(text_at(hit, "id")), 2 * count + 1);
  if (!archive.empty()) path += "&archive=" + in_url(archive);
  if (const std::string topic = text_at(hit, "topic"); archive.empty() && !topic.empty())
    path += "&topic=" + in_url(topic);
  const auto answer = answer_of(daemon, "GET", path);
  if (!answer) return {};
  Neighbours lines;
  for (const std::string_view message : json::elements(json::find(*answer, "data").value_or("[]"))) {
    const auto other = json::int_at(message, "seq");
    if (!other || *other == *seq) continue;
    const std::string text = json::find(message, "deleted") == "true" ? "(deleted)" : text_at(message, "text");
    (*other < *seq ? lines.before : lines.behind) +=
        "  " + terminal.line(fmt::format("{}: {}", speaker_of(message), text), 2) + "\n";
  }
  return lines;
}

void print_hits(const Endpoint& daemon, const SearchCommand& command, const std::vector<std::string>& hits) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const Terminal terminal{
      .width = std::max<std::size_t>(terminal_width().value_or(80), 20),
      .marks = (no_color == nullptr || *no_color == '\0') && term != nullptr && std::string_view(term) != "dumb"};
  bool any = false;
  for (const std::string& hit : hits) {
    const Neighbours beside = neighbours_of(daemon, hit, command.context, terminal);
    if (std::exchange(any, true)) fmt::print("\n");
    fmt::print("{}\n{}", terminal.line(time_of(json::int_at(hit, "timestamp")) + " " + place_of(hit)), beside.before);
    fmt::print("> {}: {}\n{}", without_controls(speaker_of(hit)), marked_snippet(hit, terminal), beside.behind);
  }
  if (!any) fmt::print("nothing found\n");
}

}  // namespace

int run(const SearchCommand& command) {
  const auto daemon = endpoint_of(command.asked);
  if (!daemon) return told("search", daemon.error());
  const auto hits = ask_for_hits(*daemon, command);
  if (!hits) return told("search", hits.error());
  if (command.asked.json || ::isatty(STDOUT_FILENO) == 0)
    for (const std::string& hit : hits->all) fmt::print("{}\n", hit);
  else
    print_hits(*daemon, command, hits->all);
  if (hits->partial) fmt::print(stderr, "sessiond search: not everything was looked at, so there may be more\n");
  return 0;
}

}  // namespace sessiond::cli
