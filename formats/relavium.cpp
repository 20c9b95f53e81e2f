#include "formats/relavium.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/document.hpp"
#include "formats/yaml.hpp"
#include "store/names.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/members.hpp"

namespace sessiond::formats {
namespace {

using transcripts::is_array;
using transcripts::is_object;
using transcripts::is_string;

std::string said_in(std::string_view message, const context::Entry& spoken) {
  if (!spoken.content.empty()) return transcripts::text_of(spoken.content);
  return json::string_at(message, "text").value_or("");
}

// Puts spaces into each run of braces, so that none opens an interpolation: {{a}} becomes { {a}}.
std::string without_openers(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '{' && out.ends_with('{')) out += ' ';
    out += c;
  }
  return out;
}

// --- turns ---

// The messages of a user up to an answer, and what answers them.
struct Turn {
  std::string prompt{};
  std::vector<std::string> tools{};  // in the order of their first use
  bool completed = false;            // its last message is an answer in text that calls nothing
};

// Cuts the messages of the path into turns. Messages before the first user's belong to none.
class Turns {
 public:
  // Returns the turn that this message ends, unless it was broken off.
  std::optional<Turn> add(std::string_view message, const context::Entry& spoken) {
    if (spoken.synthetic || spoken.summary) return std::nullopt;
    if (spoken.role == context::Role::user) {
      auto ended = asking_ ? std::nullopt : end();
      if (!turn_) turn_.emplace();
      asking_ = true;
      const std::string text = said_in(message, spoken);
      if (!text.empty()) turn_->prompt += (turn_->prompt.empty() ? "" : "\n") + text;
      return ended;
    }
    if (!turn_ || (spoken.role != context::Role::assistant && spoken.role != context::Role::tool)) return std::nullopt;
    asking_ = false;
    turn_->completed = spoken.role == context::Role::assistant && spoken.calls.empty() &&
                       !store::trim(said_in(message, spoken)).empty();
    for (const context::ToolCall& call : spoken.calls)
      if (!call.name.empty() && std::ranges::find(turn_->tools, call.name) == turn_->tools.end())
        turn_->tools.push_back(call.name);
    return std::nullopt;
  }
  std::optional<Turn> end() {
    asking_ = false;
    auto ended = std::exchange(turn_, std::nullopt);
    return ended && ended->completed ? std::move(ended) : std::nullopt;
  }

 private:
  std::optional<Turn> turn_{};
  bool asking_ = false;  // the last message is the user's
};

// --- messages of the metadata ---

constexpr std::initializer_list<std::string_view> signatures{"signature", "thinkingSignature", "thoughtSignature",
                                                             "encrypted_content"};

// A part of a content without the signature of its provider; "" if nothing else is in it.
std::string part_without_signature(std::string_view part) {
  if (!is_object(part)) return one_line(part);
  if (json::string_at(part, "type") == "redacted_thinking") return {};
  return fmt::format("{{{}}}", other_members(part, signatures));
}

std::string parts_of(std::string_view message, const context::Entry& spoken) {
  std::string parts;
  const auto add = [&parts](std::string_view part) {
    if (part.empty()) return;
    if (!parts.empty()) parts += ',';
    parts += part;
  };
  if (is_array(spoken.content))
    for (const std::string_view part : json::elements(spoken.content)) add(part_without_signature(part));
  const auto text = spoken.content.empty() ? json::find(message, "text") : std::optional(spoken.content);
  if (text && is_string(*text) && *text != "\"\"") add(fmt::format(R"({{"type":"text","text":{}}})", *text));
  for (const context::ToolCall& call : spoken.calls) {
    if (call.spelling != context::Spelling::openai) continue;  // the others are parts of the content
    json::ObjectWriter part;
    part.string("type", "toolCall");
    part.string("id", call.id);
    part.string("name", call.name);
    part.raw("arguments", arguments_of(call.arguments));
    add(part.text());
  }
  return fmt::format("[{}]", parts);
}

std::string_view role_name(context::Role role) {
  switch (role) {
    case context::Role::system:
      return "system";
    case context::Role::user:
      return "user";
    case context::Role::tool:
      return "tool";
    default:
      return "assistant";
  }
}

// --- the workflow ---

class RelaviumWriter final : public Writer {
 public:
  explicit RelaviumWriter(SessionFacts facts) : facts_(std::move(facts)) {}

  void survey(const StoredEntry& stored) override {
    survey_.add(stored);
    if (ReadEntry(stored.line).message(stored.change)) has_messages_ = true;
  }
  bool wants_count() const override { return true; }
  void count(const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    const auto message = entry.message(stored.change);
    if (message && turns_.add(*message, context::read_entry("message", *message))) ++completed_;
  }
  Result<std::string> begin() override {
    if (turns_.end()) ++completed_;
    const ShownSession shown(facts_, survey_);
    time_ = shown.created;
    std::string out;
    if (const auto agent = json::find(facts_.entry, "agentSnapshot"); agent && is_object(*agent))
      append_yaml_members(out, fmt::format(R"({{"agents":[{}]}})", *agent), 0);
    out += "edges:\n";
    for (std::size_t at = 0; at <= completed_; ++at) {
      json::ObjectWriter edge;
      edge.string("from", at == 0 ? "input" : fmt::format("turn-{}", at));
      edge.string("to", at == completed_ ? "output" : fmt::format("turn-{}", at + 1));
      append_yaml_element(out, edge.text(), 1);
    }
    append_yaml_members(out, fmt::format(R"({{"id":{}}})", json::quote(id())), 0);
    out += "metadata:\n  relaviumExport:\n";
    json::ObjectWriter head;
    head.string("agentSlug", slug_of_agent());
    head.string("createdAt", transcripts::iso_time(shown.created));
    append_yaml_members(out, head.text(), 2);
    return out + (has_messages_ ? "    messages:\n" : "    messages: []\n");
  }
  std::vector<Pass> passes() const override { return {Pass::all, Pass::path}; }

  void history(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    const auto message = entry.message(stored.change);
    if (!message) return;
    time_ = entry.time().value_or(time_);
    const context::Entry spoken = context::read_entry("message", *message);
    json::ObjectWriter shown;
    shown.string("id", transcripts::entry_id(entry.line, stored.seq));
    shown.string("sessionId", facts_.id);
    shown.integer("sequenceNumber", static_cast<std::int64_t>(stored.seq));
    shown.string("role", role_name(spoken.role));
    shown.raw("content", parts_of(*message, spoken));
    if (spoken.role == context::Role::tool && !spoken.results.empty() && spoken.results.front().part.empty()) {
      shown.string("toolCallId", spoken.results.front().call_id);
      if (!spoken.results.front().name.empty()) shown.string("toolName", spoken.results.front().name);
    }
    if (is_string(spoken.model)) shown.raw("modelId", spoken.model);
    shown.string("timestamp", transcripts::iso_time(time_));
    append_yaml_element(out, shown.text(), 3);
  }
  std::string middle() override {
    const ShownSession shown(facts_, survey_);
    json::ObjectWriter tail;
    tail.string("sessionId", facts_.id);
    tail.string("source", "session");
    if (!title().empty()) tail.string("title", title());
    tail.string("updatedAt", transcripts::iso_time(shown.updated));
    std::string out;
    append_yaml_members(out, tail.text(), 2);
    append_yaml_members(out, fmt::format(R"({{"name":{}}})", json::quote(title().empty() ? facts_.id : title())), 0);
    out += "nodes:\n";
    append_yaml_element(out, R"({"id":"input","type":"input"})", 1);
    return out;
  }
  void message(std::string& out, const StoredEntry& stored) override {
    const ReadEntry entry(stored.line);
    const auto message = entry.message(stored.change);
    if (!message) return;
    if (const auto turn = turns_.add(*message, context::read_entry("message", *message))) append_node(out, *turn);
  }
  std::string end() override {
    std::string out;
    if (const auto turn = turns_.end()) append_node(out, *turn);
    append_yaml_element(out, R"({"id":"output","type":"output"})", 1);
    return out + "version: \"1.0\"\n";
  }

 private:
  std::string title() const {
    for (const char* field : {"name", "label"})
      if (auto text = json::string_at(facts_.entry, field); text && !text->empty()) return *text;
    return {};
  }
  std::string slug_of_agent() const { return json::string_at(facts_.entry, "agentRef").value_or(facts_.agent); }
  // The title in a-z, 0-9 and "-".
  std::string id() const {
    std::string slug;
    for (const char c : store::lower(title())) {
      const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      if (kept)
        slug += c;
      else if (static_cast<unsigned char>(c) < 0x80 && !slug.empty() && !slug.ends_with('-'))
        slug += '-';
    }
    if (slug.ends_with('-')) slug.pop_back();
    return slug.empty() ? "exported-session" : slug;
  }
  void append_node(std::string& out, const Turn& turn) {
    json::ObjectWriter node;
    node.string("id", fmt::format("turn-{}", ++written_));
    node.string("type", "agent");
    node.string("agent_ref", slug_of_agent());
    if (!turn.prompt.empty()) node.string("prompt_template", without_openers(turn.prompt));
    if (!turn.tools.empty()) node.raw("tools", json::array_of(turn.tools));
    append_yaml_element(out, node.text(), 1);
  }

  SessionFacts facts_;
  Survey survey_{"relavium-yaml"};
  Turns turns_{};
  std::size_t completed_ = 0, written_ = 0;
  bool has_messages_ = false;
  std::int64_t time_ = 0;  // of the last message
};

}  // namespace

std::unique_ptr<Writer> write_relavium(SessionFacts facts) {
  return std::make_unique<RelaviumWriter>(std::move(facts));
}

}  // namespace sessiond::formats
