// The decision about a person who goes on with a session.
#include <fmt/format.h>

#include "daemon/decide/steps.hpp"
#include "daemon/decide/view.hpp"
#include "policy/resume_text.hpp"
#include "store/try.hpp"

namespace sessiond::decide {
namespace {

std::string text_in(const Session& session, std::string_view member) {
  return json::string_at(*session.entry(), member).value_or("");
}

std::string messages_json(const ResumeSession& command) {
  const auto seq = [](std::optional<std::uint64_t> number) { return number ? std::to_string(*number) : "null"; };
  return fmt::format(R"({{"count":{},"firstSeq":{},"lastSeq":{}}})", command.said.all(), seq(command.said.first),
                     seq(command.said.last));
}

}  // namespace

Result<Decision> decide(const AgentState& state, const ResumeSession& command, const Context& context) {
  DecisionBuilder builder(state, context);
  TRY(const auto there, resolve_open(state, command.target));
  if (there->session_id != command.session_id) return fail(Code::session_busy, "the session was reset; try again");
  builder.emit(journal::EventType::session_resumed, *there, SessionResumed{client_of(context)});
  const std::string text =
      policy::resume_text({.name = there->name.empty() ? there->session_id : there->name,
                           .created = transcripts::iso_time(there->created_at),
                           .last_active = transcripts::iso_time(there->last_interaction_at.value_or(there->updated_at)),
                           .of_user = command.said.users,
                           .of_assistant = command.said.assistants,
                           .description = text_in(*there, "description"),
                           .first_message = text_in(*there, "firstMessage")});
  json::ObjectWriter restored;
  restored.boolean("messages", true);
  restored.boolean("metadata", true);
  restored.boolean("contextSummary", command.said.summary.has_value());
  restored.boolean("toolContext", false);
  restored.boolean("eventLogs", false);
  json::ObjectWriter body;
  body.raw("session", session_json(state.id(), *there,
                                   {.parent = command.shows_parent, .takeover = shown_takeover(state, *there)}));
  body.raw("messages", messages_json(command));
  body.string_or_null("contextSummary", command.said.summary);
  body.string("resumeSummary", text);
  body.raw("restored", restored.text());
  body.string("asOf", builder.as_of());
  builder.out.body = body.text();
  builder.out.etag = etag(*there);
  return std::move(builder.out);
}

}  // namespace sessiond::decide
