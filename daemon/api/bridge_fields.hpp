// Fields that requests of chat bridges share. Faults are collected in `fields`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/api/handler.hpp"

namespace sessiond::api {

std::optional<std::string> checked_topic(Fields& fields);
// `content`: an array of parts or a string, not beside a text.
void check_content(Fields& fields, const std::optional<std::string>& text, std::optional<std::string_view> content,
                   std::string& into);
// Checks that a message is not empty: it has text or content, or the field `other` (attachments, media URLs) holds
// something.
void check_not_empty(Fields& fields, const std::optional<std::string>& text, std::string_view other, bool has_other);
// A string, or {"id","name"?,"username"?}. Empty when absent.
decide::Person person_of(Fields& fields, std::string_view name);
// The name of a person who speaks in place of the agent; empty when absent.
std::string person_name(Fields& fields);
// An agent id, normalised; "main" when absent.
std::string agent_of(Fields& fields);

}  // namespace sessiond::api
