// Reads from a transcript what a Session says of its conversation when asked (?include=): what was said last, and how
// many messages there are. Thread: the loop. Transcripts are read on disk threads.
#pragma once

#include <string>

#include "daemon/api/handler.hpp"

namespace sessiond::api {

// The parts of a session that a client gets only when it asks for them.
struct Included {
  bool snapshots = false;
  bool last_message = false;
  bool message_counts = false;
};
// Reads ?include=: names with commas between them. bad_request for a name that is not known.
Result<Included> included_in(const http::Request& request);

// Returns what people or the agent said last in the main conversation of a session, as people left it: a message of
// view=chat, with its `author`, its text cut after 200 code points ("more":true). What is for the agent alone does not
// count, nor an answer that a person has overtaken. Empty: nothing was said among the last entries, the transcript
// cannot be read, the session has another id by now, or the token does not see it any more.
asio::awaitable<std::string> last_message(Api& api, const http::Request& request, SessionPath path,
                                          std::string session_id);

// Counts the messages of the main conversation: those of people, of the agent, and of persons in its place, as
// {"people","agent","team"}. What lastMessage leaves out does not count, and neither does what was deleted. Of a longer
// transcript the newest 5 000 entries or 8 MiB are counted ("more":true). Empty: the transcript cannot be read, the
// session has another id by now, or the client has gone.
asio::awaitable<std::string> message_counts(Api& api, const http::Request& request, SessionPath path,
                                            std::string session_id);

}  // namespace sessiond::api
