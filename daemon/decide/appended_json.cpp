#include <fmt/format.h>

#include "daemon/decide/append.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::decide {

std::string appended_json(const DecisionBuilder& builder, const Session& session, const AppendRequest& request,
                          const AppendResult& appended) {
  std::string answer;
  answer.reserve(256 + 20 * appended.ids.size());
  json::ObjectWriter writer(answer);
  writer.string("sessionId", session.session_id);
  writer.string_or_null("topic", request.topic);
  writer.integer("firstSeq", static_cast<std::int64_t>(appended.first_seq));
  writer.integer("lastSeq", static_cast<std::int64_t>(appended.last_seq));
  writer.raw("ids", json::array_of(appended.ids));
  writer.integer("duplicates", static_cast<std::int64_t>(appended.duplicates));
  if (!appended.warnings.empty()) {
    std::string warnings = "[";
    for (const AppendResult::Warning& warning : appended.warnings)
      warnings += fmt::format(R"({}{{"code":"{}","id":{}}})", warnings.size() > 1 ? "," : "", name(warning.code),
                              json::quote(warning.id));
    writer.raw("warnings", warnings + "]");
  }
  writer.string("asOf", builder.as_of());
  writer.close();
  return answer;
}

}  // namespace sessiond::decide
