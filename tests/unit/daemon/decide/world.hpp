// An agent without a disk: decisions are committed as the ledger does it, each event written as the journal keeps it
// and read back before it is applied, and transcripts are strings that line positions must fit.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/decide/apply.hpp"
#include "daemon/decide/commands.hpp"
#include "daemon/decide/foreign.hpp"
#include "daemon/decide/steps.hpp"
#include "daemon/decide/view.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::decide {

inline constexpr const char* main_key = "agent:main:main";

inline sessions::RawEntry raw(std::string_view text) { return std::make_shared<const std::string>(text); }

// A member's raw JSON; "-" where there is none.
inline std::string at(std::string_view object, std::string_view name) {
  return std::string(json::find(object, name).value_or("-"));
}

inline json::Edit edit_of(std::string_view object) {
  json::Edit edit;
  for (const json::Member& member : json::members(object))
    edit.put(json::unescape(member.name), std::string(member.value));
  return edit;
}

inline Change event_of(std::uint64_t seq, std::int64_t time, journal::EventType type, std::string_view key,
                       std::string_view data, std::string_view session_id = "s1",
                       const std::optional<std::string>& topic = {}) {
  const journal::Event made = journal::make_event({.seq = seq,
                                                   .time = time,
                                                   .type = type,
                                                   .agent = "main",
                                                   .key = std::string(key),
                                                   .session_id = std::string(session_id),
                                                   .topic = topic},
                                                  data);
  auto read = journal::parse_event(*made.json);
  REQUIRE(read);
  return decode(std::move(*read));
}

// All that two states of the same history must agree on.
inline std::string picture(const AgentState& state, bool with_topics = true) {
  std::string out;
  std::vector<const Session*> by_order;
  for (const auto& [key, session] : state.by_name()) {
    out.append(key).append(" = ").append(*session->entry()).append(" rev ").append(std::to_string(session->rev));
    for (const Session* child : state.children(key)) out.append("\n  child ").append(child->key());
    const Session* by_id = state.find(session->session_id);
    out.append("\n  by id ").append(by_id != nullptr ? by_id->key() : "nobody");
    if (const auto* topics = state.transcripts.topics(session->session_id); with_topics && topics != nullptr)
      for (const auto& topic : *topics) out.append("\n  topic ").append(topic);
    out += '\n';
    by_order.push_back(session);
  }
  std::ranges::sort(by_order, {}, &Session::order);
  for (const Session* session : by_order) out.append("made ").append(session->key()).append("\n");
  for (const Session* session : state.by_updated()) out.append("updated ").append(session->key()).append("\n");
  return out;
}

// Ids that are the same in every run.
inline IdSource counted_ids() {
  return IdSource([state = std::uint64_t{1}](std::span<unsigned char> into) mutable {
    for (unsigned char& byte : into) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      byte = static_cast<unsigned char>(state >> 56);
    }
  });
}

struct World {
  AgentState state{"main"};
  Rules rules{};
  IdSource ids = counted_ids();
  FetchedIds on_disk;  // what lies in the folder beside `files` and `archives`
  Sight sight{};
  const Adoptions* adoptions = nullptr;
  const runs::HookList* hooks = nullptr;
  std::uint64_t oldest_seq = 0;
  std::uint64_t next_seq = 1;
  std::int64_t now = 1'795'298'400'000;      // 2026-11-21T22:00:00Z
  std::vector<std::string> log;              // every event's bytes
  std::map<std::string, std::string> files;  // transcripts by name
  std::set<std::string> archives;            // names that transcripts were archived as
  FetchedIds found;                          // of `on_disk`, what was asked for
  std::vector<Need> asked;                   // what the last decision needed

  World() {
    rules.cwd = "/w";
    rules.runs.on_inbound = false;  // those that test runs say so
  }

  Context context(std::string_view source = "api") {
    return {.next_seq = next_seq,
            .now = now,
            .age_now = now,
            .epoch = "0badcafe",
            .actor = "t",
            .source = source,
            .rules = &rules,
            .ids = &ids,
            .oldest_seq = oldest_seq,
            .on_disk = &found,
            .sight = sight,
            .orders = {.adoptions = adoptions, .hooks = hooks}};
  }

  std::vector<std::string> lines(const std::string& file) const {
    std::vector<std::string> out;
    const auto named = files.find(file);
    if (named == files.end()) return out;
    std::string_view rest = named->second;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      out.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return out;
  }
  std::vector<std::string> entries(const std::string& file) const {
    auto out = lines(file);
    if (!out.empty() && json::string_at(out.front(), "type") == "session") out.erase(out.begin());
    return out;
  }

  void fetch(const Need& need, FetchedLines& fetched) {
    if (need.what == Need::What::id_files) {
      found[need.file] = on_disk[need.file];
      return;
    }
    if (need.what == Need::What::counts) {
      transcripts::Counts counts;
      for (const std::string& file : counted_files(state, session(need.file)))
        for (const std::string& line : entries(file))
          counts.add({.messages = transcripts::is_message(line) ? 1 : 0, .entries = 1});
      const Context now = context();
      commit(decide_counts(state, session(need.file), counts, now));
      return;
    }
    const auto stored = entries(need.file);
    if (need.what == Need::What::transcript_end) {
      REQUIRE(state.transcripts.find(need.file) == nullptr);
      TranscriptEnd& end = state.transcripts.find_or_add(need.file);
      const std::string& bytes = files[need.file];
      end.size = bytes.size();
      end.count = stored.size();
      end.has_header = lines(need.file).size() > stored.size();
      end.ends_in_newline = bytes.empty() || bytes.back() == '\n';
      if (!stored.empty()) end.last_id = json::string_at(stored.back(), "id").value_or("");
      end.meter = std::make_shared<const context::Meter>();
    } else if (need.what == Need::What::meter) {
      state.transcripts.find_or_add(need.file).meter = std::make_shared<const context::Meter>();
    } else if (need.what == Need::What::entry_ids) {
      auto hashes = std::make_shared<transcripts::IdSet>();
      for (const auto& line : stored) hashes->insert(transcripts::id_hash(json::string_at(line, "id").value_or("")));
      state.transcripts.find_or_add(need.file).ids = hashes;
    } else if (need.what == Need::What::behind) {
      transcripts::StoredLine& answer = fetched[behind_name(need.ids.front())];
      answer = {.seq = stored.size(), .line = {}};
      for (const std::string& text : stored) {
        if (json::string_at(text, "id") == need.ids.front())
          answer.line.clear();
        else if (json::string_at(text, "type") == "message")
          answer.line = text;
      }
    } else {
      for (const std::string& id : need.ids) {
        const auto line =
            std::ranges::find_if(stored, [&](const auto& text) { return json::string_at(text, "id") == id; });
        fetched[id] = {.seq = static_cast<std::uint64_t>(line - stored.begin()),
                       .line = line == stored.end() ? "" : *line};
      }
    }
  }

  // Decides, fetching what is needed; the state's sessions are untouched.
  template <class Command>
  Result<Decision> ask(Command command) {
    if constexpr (std::same_as<Command, Inbound>) {
      TRY(command.route, route_of(rules.routing, state.id(), command));
    }
    asked.clear();
    found.clear();
    FetchedLines fetched;
    for (int round = 0; round < 50; ++round) {
      const Context here = context();
      auto decision = [&] {
        if constexpr (requires { decide(state, command, here, fetched); }) {
          return decide(state, command, here, fetched);
        } else {
          return decide(state, command, here);
        }
      }();
      if (!decision || !decision->need) return decision;
      asked.push_back(*decision->need);
      fetch(*decision->need, fetched);
    }
    FAIL("a decision that is never content");
    return fail(Code::internal, "");
  }

  void archive(const journal::Event& event) {
    const auto names = json::find(event.data, "archivedAs");
    for (const std::string_view name : json::elements(names.value_or("[]"))) {
      const std::string archived = json::as_string(name).value_or("");
      const std::string file = archived.substr(0, archived.find(".jsonl") + 6);
      CHECK(archives.insert(archived).second);  // no two archives have one name
      files.erase(file);
    }
  }

  void put(const journal::LinePosition& position, const std::vector<journal::Event>& events) {
    if (position.is_of_archive()) return;
    if (position.length && !position.at) return;  // it says how far a file is known
    std::string& file = files[position.file];
    if (!file.empty() && file.back() != '\n') file += '\n';
    CHECK(position.at == file.size());
    const auto event =
        std::ranges::find(events, position.seq, [](const journal::Event& one) { return one.envelope.seq; });
    REQUIRE(event != events.end());
    const std::string message = at(event->data, "message");
    const std::string line = position.line.empty() ? transcripts::line_of(message, position.unstamped) : position.line;
    file += line;
    if (!position.made) return;  // a foreign line
    CHECK(position.made->text == line);
    if (transcripts::entry_type(line) == "session") {
      CHECK(position.made->id.empty());
      CHECK_FALSE(position.made->seq);
    } else {
      CHECK(position.made->id == json::string_at(message, "id"));
      CHECK(static_cast<std::int64_t>(position.made->seq.value()) == json::int_at(message, "seq"));
    }
  }

  Decision commit(Decision decision) {
    std::vector<journal::Event> events;
    for (Change& made : decision.events) {
      encode(made);
      REQUIRE(made.envelope.seq == next_seq);
      ++next_seq;
      REQUIRE(json::check(*made.json, {.max_depth = 64, .unique_names = true, .utf8 = true}));
      auto read = journal::parse_event(*made.json);
      REQUIRE(read);
      log.push_back(*made.json);
      CHECK_MESSAGE(reads_back(made), *made.json);
      const bool is_last = &made == &decision.events.back();
      apply(state, made, Replay::no, is_last ? decision.edited.get() : nullptr);  // replay_test.cpp replays `log`
      events.push_back(std::move(*read));
      for (const journal::LinePosition& position : decision.line_positions)
        if (position.seq == made.envelope.seq) put(position, events);
      archive(events.back());
    }
    for (const TranscriptUpdate& update : decision.transcript_updates) {
      CHECK(update.end.size == files[update.file].size());
      CHECK(update.end.count == entries(update.file).size());
      apply(state, update);
    }
    return decision;
  }

  template <class Command>
  Decision run(const Command& command) {
    auto decision = ask(command);
    if (!decision) FAIL(decision.error().detail);
    return commit(std::move(*decision));
  }
  template <class Command>
  Problem refused(const Command& command) {
    const auto decision = ask(command);
    REQUIRE_FALSE(decision);
    return decision.error();
  }

  // A session as a store has it, without an event.
  const Session& store(std::string_view key, std::string_view entry) {
    return state.insert(std::string(key), raw(entry));
  }
  const Session& session(std::string_view key) const {
    const Session* there = state.find(key);
    REQUIRE(there != nullptr);
    return *there;
  }
  std::string field(std::string_view key, std::string_view name) const { return at(*session(key).entry(), name); }
};

}  // namespace sessiond::decide
