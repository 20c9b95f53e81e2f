#include "daemon/api/run_signatures.hpp"

#include <algorithm>
#include <ranges>
#include <string_view>
#include <unordered_map>

#include "store/limits.hpp"

namespace sessiond::api {
namespace {

std::size_t bytes_of(const policy::StrippedContent& content) { return content.stored.size() + content.sent.size(); }

}  // namespace

void RunSignatures::keep(const std::string& agent, const std::string& key, const std::string& run_id,
                         std::vector<policy::StrippedContent> contents) {
  auto session = kept_.try_emplace({agent, key}).first;
  if (session->second.run_id != run_id) {
    bytes_ -= session->second.bytes;
    session->second = {.run_id = run_id};
  }
  Kept& kept = session->second;
  for (policy::StrippedContent& content : contents) {
    const auto is_same = [&content](const auto& one) { return *one == content; };
    if (std::ranges::any_of(kept.contents, is_same)) continue;
    const std::size_t bytes = bytes_of(content);
    kept.contents.push_back(std::make_shared<const policy::StrippedContent>(std::move(content)));
    kept.bytes += bytes;
    bytes_ += bytes;
  }
  while (bytes_ > limits::signature_bytes) drop_oldest();
}

void RunSignatures::drop_oldest() {
  const auto most = std::ranges::max_element(kept_, {}, [](const auto& session) { return session.second.bytes; });
  Kept& kept = most->second;
  const std::size_t bytes = bytes_of(*kept.contents.front());
  kept.contents.erase(kept.contents.begin());
  kept.bytes -= bytes;
  bytes_ -= bytes;
  if (kept.contents.empty()) kept_.erase(most);
}

void RunSignatures::see(const journal::Event& event) {
  const journal::EventType type = event.envelope.type;
  const bool ends = type == journal::EventType::run_finished || type == journal::EventType::session_deleted;
  if (kept_.empty() || !ends) return;
  const auto session = kept_.find({event.envelope.agent, event.envelope.key});
  if (session == kept_.end()) return;
  // Also runs end that waited, or were refused, while another one goes on.
  if (type == journal::EventType::run_finished && json::string_at(event.data, "runId") != session->second.run_id)
    return;
  bytes_ -= session->second.bytes;
  kept_.erase(session);
}

SignedContents RunSignatures::of(const std::string& agent, const std::string& key, const std::string& run_id) const {
  const auto session = kept_.find({agent, key});
  return session == kept_.end() || session->second.run_id != run_id ? SignedContents{} : session->second.contents;
}

void show_signatures(context::Conversation& conversation, const SignedContents& contents) {
  if (contents.empty()) return;
  std::unordered_map<std::string_view, std::vector<const policy::StrippedContent*>> by_stored;
  for (const auto& content : contents) by_stored[content->stored].push_back(content.get());
  // The newest first: of messages that are stored alike, the last one came last.
  for (auto* lines : {&conversation.after, &conversation.before}) {
    for (context::Line& line : std::views::reverse(*lines)) {
      const auto content = line.type == "message" ? json::find(line.body, "content") : std::nullopt;
      const auto found = content ? by_stored.find(*content) : by_stored.end();
      if (found == by_stored.end() || found->second.empty()) continue;
      const auto at = static_cast<std::size_t>(content->data() - line.body.data());
      line.body.replace(at, content->size(), found->second.back()->sent);
      found->second.pop_back();
    }
  }
}

}  // namespace sessiond::api
