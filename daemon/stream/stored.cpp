#include "daemon/stream/stored.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/stream/frames.hpp"
#include "store/json/raw_json.hpp"
#include "store/try.hpp"

namespace sessiond::stream {
namespace {

// A slow client holds this much memory while it is sent a page. The journal's index is about as coarse.
constexpr std::size_t page_bytes = 256 << 10;

// Calls take(seq, json) for every event of one page up to `last`, until it fails. Returns where to continue.
template <class Take>
Result<journal::EventsRead> for_each(const journal::Journal& journal, std::uint64_t from, std::uint64_t last,
                                     Take take) {
  Result<void> understood;
  auto read = journal.each_event(from, page_bytes, [&](std::uint64_t seq, std::string_view json) {
    if (seq <= last && understood) understood = take(seq, json);
  });
  if (!read) return read;
  if (!understood) return std::unexpected(std::move(understood.error()));
  if (read->next <= from)
    return fail(Code::degraded,
                fmt::format("the journal returned no event at seq {}, although it should hold one", from));
  read->next = std::min(read->next, last + 1);
  return read;
}

}  // namespace

Result<StoredPage> read_stored(const journal::Journal& journal, const StreamView& view, std::uint64_t from,
                               std::uint64_t last) {
  StoredPage out;
  out.text.reserve(page_bytes + page_bytes / 4);
  const bool all = view.shows_all();
  auto read = for_each(journal, from, last, [&](std::uint64_t seq, std::string_view json) -> Result<void> {
    if (all) {
      const auto type = json::string_at(json, "type");
      if (!type) return fail(Code::bad_request, fmt::format("the journal line of seq {} is not an event", seq));
      if (*type == journal::name(journal::EventType::log_appended)) return {};
      frames::append_event(out.text, journal.epoch(), seq, *type, json);
    } else {
      TRY(auto event, journal::parse_event(std::string(json)));
      if (!view.shows(event.envelope)) return {};
      frames::append_event(out.text, journal.epoch(), seq, journal::name(event.envelope.type), json);
    }
    out.ends.push_back({seq, out.text.size()});
    return {};
  });
  if (!read) return std::unexpected(std::move(read.error()));
  out.next = read->next;
  out.lost = read->lost;
  return out;
}

Result<StoredSeqs> find_stored(const journal::Journal& journal, const StreamView& view, std::uint64_t from,
                               std::uint64_t last) {
  StoredSeqs out;
  while (from <= last) {
    auto read = for_each(journal, from, last, [&](std::uint64_t seq, std::string_view json) -> Result<void> {
      out.bytes += json.size();
      TRY(auto event, journal::parse_event(std::string(json)));
      if (view.shows(event.envelope)) out.seqs.push_back(seq);
      return {};
    });
    if (!read) return std::unexpected(std::move(read.error()));
    if (read->lost) {
      out.lost = true;
      out.seqs.clear();
    }
    from = read->next;
  }
  return out;
}

}  // namespace sessiond::stream
