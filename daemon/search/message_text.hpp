// Takes the text that is searched out of an entry: of messages of users, assistants and tools, of results of tools, and
// of notes. What a model thinks, the arguments of calls and streams of a session are not searched. Pure.
//
// A note is what an agent or a person wrote down beside the conversation, for no model:
//   {"type":"custom","customType":"note","data":{"text":"…","by":"…"}}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sessiond::search {

enum class Role : std::uint8_t { user, assistant, tool, name, label, note };
std::string_view name(Role role);
std::optional<Role> role_of(std::string_view name);
// Returns whether the text belongs to the session itself, and not to an entry.
inline bool is_of_session(Role role) { return role == Role::name || role == Role::label; }

struct MessageText {
  std::string id{};
  std::optional<std::int64_t> time{};  // ms since the epoch
  std::optional<Role> role{};          // nothing: it is not found
  std::string from{};                  // JSON, as the entry has it; of a note its `by`. Empty: it does not say
  std::string text{};
};

// Reads an entry in the API's form (transcripts/entry.hpp). At most `most_bytes` of its text are taken.
MessageText read_message(std::string_view message, std::size_t most_bytes);

// An edit or a deletion of a message, as the events message.edited and message.deleted tell it.
struct MessageChange {
  std::string session_id{}, topic{}, entry{};  // of the message: its transcript, and its id
  std::uint64_t seq = 0;
  bool deleted = false;
  std::string text{};
};
// Nothing: it cannot be read.
std::optional<MessageChange> read_change(std::string_view data, bool deleted, std::size_t most_bytes);

// Returns the names by which `from` finds what somebody said: id, name and user name, folded, each between line ends.
// `from` is MessageText::from. Empty: none.
std::string names_of(std::string_view from);

// Cuts a text at a character, and puts spaces for NUL.
std::string findable(std::string text, std::size_t most_bytes);

}  // namespace sessiond::search
