// Makes the text of a stream: Server-Sent Events as the HTML standard defines them, one field a line, an empty line
// after each event. `data` is always one line of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sessiond::frames {

constexpr std::size_t event_overhead = 80;  // bytes of a frame besides its data, approximately

std::string retry(std::int64_t ms);
std::string event(std::string_view id, std::string_view type, std::string_view data);  // empty id: none
std::string position(std::string_view id);  // sets the client's last id without an event
std::string ping(bool as_event);
std::string bye(std::int64_t retry_ms);

// Appends the frame of an event. With seq 0 it has no id: the event is ephemeral.
void append_event(std::string& out, std::string_view epoch, std::uint64_t seq, std::string_view type,
                  std::string_view json);
std::string_view data_of(std::string_view event_frame);  // the JSON of a frame that append_event made

}  // namespace sessiond::frames
