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

namespace sessiond::search {

enum class Archived : std::uint8_t { no, only, any };

struct Asked {
  Words words{};
  std::optional<std::string> agent{}, channel{};
  std::optional<Role> role{};
  std::int64_t since = 0;  // ms since the epoch
  Archived archived = Archived::no;
  std::size_t limit = 50;
  // Tells whether the token sees what lies in a session: agent, key, channel. Called on a thread of the search.
  std::function<bool(std::string_view, std::string_view, std::string_view)> sees{};
};

struct Hit {
  std::int64_t row = 0;
  std::string agent{}, key{}, topic{}, archive{}, session_id{};
  Role role = Role::user;
  std::uint64_t seq = 0;
  std::int64_t time = 0;
  std::string entry{}, text{};  // the text is that of a name or a label; else the snippet
};

// Where a page ended: a hit that was shown. It tells nothing of what the token may not see.
struct After {
  std::int64_t time = 0;
  std::string agent{}, key{}, topic{}, archive{};
  std::uint64_t seq = 0;
  bool is_name = false;
};

struct Found {
  std::vector<Hit> hits{};
  bool more = false;           // there may be others behind the last one
  bool partial = false;        // not all was looked at
  std::uint64_t position = 0;  // the index has the journal's events up to this seq
  std::int64_t next = 0;       // the row to go on before
  bool damaged = false;        // the index has to be made anew
};

inline constexpr std::size_t most_scanned = 50'000;  // texts that are looked through when no word has three code points

// `path` is the index, `grams` knows how common they are in it. `before`: rows before this one; nothing: those
// behind `after`, or from the newest.
Found find(const std::string& path, const Grams& grams, const Asked& asked, const std::optional<After>& after,
           std::optional<std::int64_t> before, std::chrono::steady_clock::time_point deadline,
           const std::atomic<bool>& stop);

}  // namespace sessiond::search
