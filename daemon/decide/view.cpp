#include "daemon/decide/view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/token_counters.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

std::string etag(const Session& session) {
  const fmt::format_int rev(session.rev);
  return std::string("r").append(rev.data(), rev.size());
}

void append_session(std::string& out, std::string_view agent, const Session& session, const SessionView& view) {
  if (!view.parent) {
    SessionView whole = view;
    whole.parent = true;
    out += json::apply(session_json(agent, session, whole), {.set = {}, .unset = {"spawnedBy"}});
    return;
  }
  const auto wanted = [&view](std::string_view name) {
    return view.fields.empty() || std::ranges::binary_search(view.fields, name);
  };
  const ShownEntry& shown = session.shown();
  out.reserve(out.size() + shown.size() + session.key().size() + agent.size() + 160);  // our members take no more
  json::ObjectWriter writer(out);
  writer.string("key", session.key());
  if (wanted("agent")) writer.string("agent", agent);
  if (wanted("rev")) writer.integer("rev", static_cast<std::int64_t>(session.rev));
  if (wanted("sessionId")) writer.string("sessionId", session.session_id);
  if (wanted("createdAt")) writer.integer("createdAt", session.created_at);
  if (wanted("updatedAt")) writer.integer("updatedAt", session.updated_at);
  if (!view.takeover.empty() && wanted("takeover")) writer.raw("takeover", view.takeover);
  // Of an entry from before usageTotals, until its next reply is counted.
  if (!session.usage_totals && session.total_tokens && !session.tokens_fresh && wanted(totals_member))
    writer.raw(totals_member, totals_of(session).json());
  if (view.fields.empty()) {
    shown.append_all(out, view.snapshots);
  } else {
    shown.append_named(out, view.fields, view.snapshots);
  }
  writer.close();
}

std::string session_json(std::string_view agent, const Session& session, const SessionView& view) {
  std::string out;
  append_session(out, agent, session, view);
  return out;
}

}  // namespace sessiond::decide
