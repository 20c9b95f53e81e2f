// Which sessions of an agent people used last: by a message of a person, an inbound message or a resume. In all, and by
// each client that names itself (header Sessiond-Client). `apply` makes it from the journal's events, and
// journal/last/<agent>.json keeps it (to_json), since the journal is pruned. The file says which event it was made at,
// so that events which it already holds change nothing when they come again. Not thread-safe: part of the agent's
// state.
//
// Everything here is bounded, and what falls out is only forgotten: where the lists end, the session that was changed
// last takes their place. Tokens that do not see the whole agent have clients of their own (client_list), so what they
// call themselves changes nothing for others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/decide/events.hpp"
#include "store/problem.hpp"

namespace sessiond::decide {

// Names the sessions that a client has used: <owner>\n<client>. `owner`: its token, if that does not see the whole
// agent.
std::string client_list(std::string_view owner, std::string_view client);

class LastUsed {
 public:
  // Keys, the one that was used last first. Their sessions lived when they were listed, and may have other names now.
  const std::vector<std::string>& of_agent() const { return of_agent_; }
  // The same of a client (client_list). Empty: it is not known.
  std::vector<std::string> of_client(std::string_view list) const;

  // Takes in an event of this agent. Cheap for a message to the session that was used last.
  void apply(const Change& event);

  // Returns whether it has changed since the last to_json().
  bool is_dirty() const { return dirty_; }
  void mark_dirty() { dirty_ = true; }
  // The text of that file, without a checksum. It then counts as unchanged.
  std::string to_json();
  // degraded: the text is not one of to_json().
  static Result<LastUsed> from_json(std::string_view text);

 private:
  struct Client {
    std::string list{};
    std::vector<std::string> keys{};
  };

  void used(const std::string& key, const std::string& list);
  void forget(const std::string& key);
  // Puts a key first. False: it was.
  static bool put_first(std::vector<std::string>& keys, const std::string& key, std::size_t most);
  void make_room(std::string_view owner);

  std::vector<std::string> of_agent_{};
  std::vector<Client> clients_{};  // the one that used a session last first
  std::uint64_t seq_ = 0;
  bool dirty_ = false;
};

}  // namespace sessiond::decide
