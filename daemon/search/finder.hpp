// Looks for texts in the index, newest first, as one thread that reads. A look is one transaction, so it sees the index
// as of one position in the journal. Blocks; bounded by a deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/search/grams.hpp"
#include "daemon/search/message_text.hpp"
#include "daemon/search/query.hpp"
#include "store/time_range.hpp"

namespace sessiond::search {

enum class Archived : std::uint8_t { no, only, any };

struct Asked {
  Words words{};
  std::optional<std::string> agent{}, key{}, channel{};
  std::optional<Role> role{};
  std::string from{};                        // a name of who said it (names_of); empty: anybody
  std::int64_t since = 0;                    // ms since the epoch
  std::int64_t until = store::last_time_ms;  // the last one
  Archived archived = Archived::no;
  std::size_t limit = 50;
  // Returns whether the token sees what lies in a session: agent, key, channel. Called on a thread of the search.
  std::function<bool(std::string_view, std::string_view, std::string_view)> sees{};
};

// A row of the index that may be shown: where its text lies, and for a name or a label what it is.
struct Hit {
  std::int64_t row = 0;
  std::string agent{}, key{}, topic{}, archive{}, session_id{};
  Role role = Role::user;
  std::uint64_t seq = 0;
  std::int64_t time = 0;
  std::string entry{}, text{};
};

// A place in an index: before this row. Another index has other rows.
struct Place {
  std::string index{};
  std::int64_t row = 0;
};

struct Found {
  std::vector<Hit> hits{};
  bool more = false;           // there may be others behind `next`
  bool partial = false;        // not all was looked at
  bool stopped = false;        // at a bound: most_scanned, or the deadline
  bool other_index = false;    // the place to begin at is of another one, so nothing was looked at
  std::uint64_t position = 0;  // the index has the journal's events up to this seq
  Place next{};                // where to go on
  bool damaged = false;        // the index has to be made anew
};

// Texts that are looked through, of those that may be shown, where no word has grams.
inline constexpr std::size_t most_scanned = 50'000;

// `path` is the index, `grams` knows how common they are in it. `from`: nothing: from the newest.
Found find(const std::string& path, const Grams& grams, const Asked& asked, const std::optional<Place>& from,
           std::chrono::steady_clock::time_point deadline, const std::atomic<bool>& stop);

}  // namespace sessiond::search
