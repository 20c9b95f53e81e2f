#include "daemon/cli/uploader.hpp"

#include <fmt/format.h>

#include "formats/jsonl.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"
#include "store/try.hpp"

namespace sessiond::cli {

std::string Uploader::place(formats::SessionHead& head) const {
  const store::KeyParts key = store::parse_key(head.key);
  const std::string named = store::lower(key.agent);
  const std::string agent = options_.agent.value_or(store::valid_agent_id(named) ? named : "main");
  if (!options_.agent || named.empty() || named == agent) return agent;
  json::Edit entry;
  entry.put_string("importedKey", head.key);
  // A parent of the same store comes along.
  const std::string parent = json::string_at(head.entry, "spawnedBy").value_or("");
  if (const store::KeyParts above = store::parse_key(parent); store::equals_nocase(above.agent, key.agent))
    entry.put_string("spawnedBy", fmt::format("agent:{}:{}", agent, above.rest));
  head.entry = json::apply(head.entry, entry);
  head.key = fmt::format("agent:{}:{}", agent, key.rest);
  return agent;
}

Result<void> Uploader::session(formats::SessionHead head) {
  const bool topic = head.topic && head.id == head_.id;
  const std::string agent = place(head);
  if (!topic) {
    if (in_parts_) buffer_.clear();  // only a header is left of it
    if (buffer_.size() > most_bytes / 2 || sessions_ >= most_sessions || agent != agent_) {
      begin_ = buffer_.size();
      TRY(send_whole());
    }
    agent_ = agent;
    begin_ = buffer_.size();
    ++counts_.sessions;
    in_parts_ = lost_ = false;
  }
  if (lost_) return {};
  head_ = std::move(head);
  has_ids_ = false;
  buffer_ += formats::header_with(head_) + '\n';
  return {};
}

Result<void> Uploader::entry(std::string line) {
  if (lost_) return {};
  if (line.size() > most_line) {
    skip({.id = head_.id,
          .why = fmt::format("an entry of {} bytes is left out: a request holds at most {}", line.size(), most_line)});
    return {};
  }
  ++counts_.entries;
  counts_.bytes += line.size();
  const bool has_id = json::string_at(line, "id").has_value();
  if (buffer_.size() + line.size() > most_bytes) {
    TRY(send_whole());
    if (buffer_.size() + line.size() > most_bytes) TRY(cut(line.size(), has_id));
    if (lost_) return {};
  }
  has_ids_ = has_ids_ || has_id;
  buffer_.append(line).append("\n");
  if (options_.on_progress) options_.on_progress(counts_);
  return {};
}

// Sends what there is of a long session. What was sent before is known by the ids of its entries: a part holds one, and
// the next part begins with one. Without them the session waits for one as long as a request can hold it.
Result<void> Uploader::cut(std::size_t next, bool next_has_id) {
  if (has_ids_ && next_has_id) return send_part();
  if (buffer_.size() + next <= most_line) return {};
  skip({.id = head_.id,
        .why = fmt::format("{} left out: it has more than {} bytes of entries without an id, and a long session is "
                           "sent in parts that are known by their ids",
                           in_parts_ ? "its rest is" : "it is", most_line)});
  buffer_.clear();
  lost_ = true;
  return {};
}

Result<void> Uploader::end() {
  if (lost_) return {};
  if (in_parts_) {  // the next transcript may be a topic of it
    TRY(send_part());
    return {};
  }
  ++sessions_;
  return {};
}

void Uploader::skip(formats::Skipped skipped) {
  using What = formats::Skipped::What;
  if (skipped.what == What::line) ++counts_.lines;
  if (skipped.what == What::note) ++counts_.notes;
  if (skipped.what == What::session) {
    ++counts_.skipped;
    ++counts_.refused;
  }
  if (options_.on_skip) options_.on_skip(skipped);
}

Result<void> Uploader::send_whole() {
  if (begin_ == 0) return {};
  std::string body = buffer_.substr(0, begin_);
  buffer_.erase(0, begin_);
  begin_ = sessions_ = 0;
  if (options_.dry_run) return {};
  TRY(wait(most_under_way - 1));
  under_way_.push_back(std::async(std::launch::async, [this, agent = agent_, body = std::move(body)] {
    return post(agent, body, options_.if_exists);
  }));
  return {};
}

Result<void> Uploader::send_part() {
  TRY(wait(0));
  // A part of a session goes on where the one before ended, also where one of an earlier import did.
  const bool replaces = options_.if_exists == "replace" && !in_parts_;
  if (!options_.dry_run) TRY(take(post(agent_, buffer_, replaces ? "replace" : "continue"), true));
  in_parts_ = true;
  has_ids_ = false;
  buffer_ = lost_ ? "" : formats::header_with(head_) + '\n';
  return {};
}

Result<void> Uploader::wait(std::size_t most) {
  while (under_way_.size() > most) {
    const Reply reply = under_way_.front().get();
    under_way_.pop_front();
    TRY(take(reply, false));
  }
  return {};
}

Result<void> Uploader::finish() {
  if (!in_parts_) begin_ = buffer_.size();
  TRY(send_whole());
  return wait(0);
}

Uploader::Reply Uploader::post(const std::string& agent, const std::string& body, std::string_view if_exists) const {
  const std::string path = fmt::format("/v1/agents/{}/import?format=jsonl&ifExists={}", in_url(agent), if_exists);
  return answer_of(daemon_, "POST", path, body, {.timeout = std::chrono::minutes(10)});
}

Result<void> Uploader::take(const Reply& reply, bool of_part) {
  if (!reply) return fail(Code::degraded, reply.error().detail);
  const bool counts = !of_part || !in_parts_;  // a session in parts counts once
  const auto number = [&](const char* name) { return counts ? json::int_at(*reply, name).value_or(0) : 0; };
  counts_.created += number("created");
  counts_.updated += number("updated");
  counts_.skipped += number("skipped");
  for (const std::string_view skipped : json::elements(json::find(*reply, "skips").value_or("[]"))) {
    formats::Skipped one{.id = text_at(skipped, "id"), .why = text_at(skipped, "why")};
    if (one.why == "is there already") continue;
    ++counts_.refused;
    lost_ = lost_ || of_part;
    if (options_.on_skip) options_.on_skip(one);
  }
  return {};
}

}  // namespace sessiond::cli
