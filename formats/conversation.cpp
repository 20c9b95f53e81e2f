#include "formats/conversation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/document.hpp"
#include "formats/jsonl.hpp"
#include "policy/context/call_book.hpp"
#include "policy/context/run_order.hpp"
#include "policy/context/sendable.hpp"
#include "policy/context/tool_pairs.hpp"
#include "policy/context/view.hpp"
#include "transcripts/entry.hpp"

namespace sessiond::formats {
namespace {

constexpr std::string_view end_type = "sessiond.end";
// Calls and results are matched in parts of a conversation, so that one of any length takes little memory. A part that
// is long enough ends where every call has its result. A part that is too long ends in any case. The writer checks that
// every 256 KiB.
constexpr std::size_t part_bytes = 8 << 20;     // long enough
constexpr std::size_t longest_part = 32 << 20;  // too long
constexpr std::size_t look_bytes = 256 << 10;

// The entries that were written, and where a checkpoint finds those that it keeps.
class Places {
 public:
  std::size_t count() const { return ids_.size(); }
  const std::string& id_at(std::size_t place) const { return ids_.at(place); }

  // Gives a row the next place, and an id: that of its entry, unless an earlier row has it. One entry may become
  // several rows: a checkpoint that names the entry means the row with `stands_for_entry`.
  void add(const std::string& id, std::uint64_t seq, bool stands_for_entry) {
    std::string own = id;
    if (!used_.insert(own).second) {
      std::uint64_t& number = numbers_.try_emplace(id, 1).first->second;
      do {
        own = fmt::format("{}.{}", id, ++number);
      } while (!used_.insert(own).second);
    }
    if (stands_for_entry) place_of_.insert_or_assign(id, ids_.size());
    ids_.push_back(std::move(own));
    seqs_.push_back(seq);
  }
  // Notes an entry that is left out: a checkpoint that names it means the row behind it, at `place`.
  void leave_out(const std::string& id, std::size_t place) { place_of_.insert_or_assign(id, place); }

  std::optional<std::size_t> of(std::string_view id) const {
    const auto found = place_of_.find(id);
    return found == place_of_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::size_t> of_seq(std::uint64_t seq) const {
    const auto found = std::ranges::find(seqs_, seq);
    return found == seqs_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - seqs_.begin()));
  }

 private:
  std::vector<std::string> ids_{};
  std::vector<std::uint64_t> seqs_{};
  std::map<std::string, std::size_t, std::less<>> place_of_{};  // by the id that an entry has in the transcript
  std::set<std::string, std::less<>> used_{};
  std::map<std::string, std::uint64_t, std::less<>> numbers_{};
};

class ConversationWriter final : public Writer {
 public:
  explicit ConversationWriter(SessionFacts facts) : facts_(std::move(facts)) {}

  void survey(const StoredEntry& entry) override {
    if (!entry.on_path) ++left_out_["entry of another branch"];
  }
  Result<std::string> begin() override {
    const std::string header = facts_.header.empty() ? header_of(facts_.id, 0) : facts_.header;
    if (const auto text = json::string_at(header, "timestamp")) time_ = transcripts::parse_iso_time(*text).value_or(0);
    is_old_ = json::int_at(header, "version").value_or(1) < 3;
    json::Edit edit{.unset = {"copied", "parentSession"}};  // they name other sessions
    if (is_old_) edit.put_int("version", 3);                // entries have ids, and names of version 3
    const std::string own = json::apply(header, edit);
    if (facts_.key.empty()) return own + '\n';
    return header_with(
               {.id = facts_.id, .key = facts_.key, .topic = facts_.topic, .header = own, .entry = facts_.entry}) +
           '\n';
  }
  void message(std::string& out, const StoredEntry& stored) override {
    const ReadEntry read(stored.line);
    if (read.fields.shape == transcripts::EntryShape::unreadable) return leave_out("line that cannot be read");
    if (read.type == "session") return leave_out("second header");
    context::Line line{.seq = stored.seq,
                       .id = transcripts::entry_id(read.line, stored.seq),
                       .type = read.type,
                       .body = std::string(read.body),
                       .at = stored.seq,
                       .is_input = stored.is_input};
    std::string text(read.line);
    time_ = read.time().value_or(time_);
    if (stored.is_blocked) {
      leave_out("message that a hook blocked");
      line.type.clear();
    } else if (read.type == "message") {
      take_message(line, text, read, stored.change);
    }
    if (bytes_ > look_at_) {
      look_at_ = bytes_ + look_bytes;
      if (bytes_ > longest_part || !book_.has_open()) put(out);
    }
    const context::Entry spoken = context::read_line(line);
    if (spoken.role != context::Role::none) book_.take(spoken);
    bytes_ += text.size();
    part_.try_emplace(stored.seq, Stored{.text = std::move(text), .time = time_, .number = lines_.size()});
    lines_.push_back(std::move(line));
  }
  std::string middle() override { return {}; }
  std::string end() override {
    std::string out;
    put(out);
    json::Edit counts;
    for (const auto& [kind, count] : left_out_) counts.put_int(kind, static_cast<std::int64_t>(count));
    json::ObjectWriter line;
    line.string("type", "custom");
    line.string("customType", end_type);
    json::ObjectWriter data;
    data.raw("leftOut", json::apply("{}", counts));
    data.integer("more", static_cast<std::int64_t>(facts_.more));
    line.raw("data", data.text());
    return out + line.text() + '\n';
  }

 private:
  struct Stored {
    std::string text{};  // the entry as people left it
    std::int64_t time = 0;
    std::size_t number = 0;  // of its line
  };

  void leave_out(const std::string& what) { ++left_out_[what]; }

  void take_message(context::Line& line, std::string& text, const ReadEntry& read,
                    const transcripts::ShownChange* change) {
    const bool is_renamed = is_old_ && json::string_at(read.body, "role") == "hookMessage";  // by version 3
    if (is_renamed) line.body = json::apply(read.body, {.set = {{"role", R"("custom")"}}});
    if (change != nullptr && (change->deleted || !change->edit.empty())) {
      auto left = transcripts::changed_message(read.body, *change);
      if (!left) {
        leave_out("message that was deleted");
        line.type.clear();
        return;
      }
      line.body = *std::move(left);
    } else if (read.fields.shape == transcripts::EntryShape::nested && !is_renamed) {
      return;
    }
    text = with_message(text, line.body);
  }

  // Returns an entry with another message. An old entry is the message itself: it becomes one that has a message.
  static std::string with_message(const std::string& entry, std::string_view message) {
    const bool has_one = json::find(entry, "message").has_value();
    const std::string base = has_one ? entry : R"({"type":"message"})";
    // `sessiond` has the message as it was imported.
    return json::apply(base, {.set = {{"message", std::string(message)}}, .unset = {"sessiond"}});
  }

  // Writes the entries that were taken since the last time.
  void put(std::string& out) {
    context::Rows rows;
    std::vector<context::Repaired> repaired;
    context::add_rows(rows, lines_, true, repaired, true);
    std::ranges::move(context::match_pairs(rows, shown_ids_), std::back_inserter(repaired));
    for (const context::Repaired& one : repaired) tell(one);
    std::erase_if(rows.all, [this](const context::Row& row) { return is_own_note(row); });
    const std::size_t first = places_.count();
    std::set<std::uint64_t> placed;
    for (const context::Row& row : rows.all) {
      const context::Line& line = line_of(row);
      // A message of results and words is parted: the row with its words stands for it. A message of results alone may
      // be parted, too: the first of them stands for it.
      const bool is_split = row.entry.role == context::Role::tool && context::read_line(line).role != row.entry.role;
      places_.add(line.id, row.seq, !row.id.empty() && !is_split && placed.insert(row.seq).second);
    }
    note_left_out(first);
    for (std::size_t at = 0; at < rows.all.size(); ++at) out += text_of(rows.all[at], first + at) + '\n';
    part_.clear();
    lines_.clear();
    bytes_ = 0;
    look_at_ = part_bytes;
    book_ = {};
  }

  const context::Line& line_of(const context::Row& row) const { return lines_[part_.at(row.seq).number]; }

  void tell(const context::Repaired& repaired) {
    const std::string_view why = repaired.why;
    if (why == "orphan_result") leave_out("result without a call");
    if (why == "duplicate_result") leave_out("second result of a call");
    if (why == "blank_message") leave_out("message with nothing in it");
    if (why == "tried_again") leave_out("text of a run that was tried again");
  }

  // Returns whether it is an entry that the daemon has written for itself, and counts it as left out.
  bool is_own_note(const context::Row& row) {
    if (!row.aside || row.entry.role != context::Role::none || row.entry.checkpoint) return false;
    const std::string type = json::string_at(row.entry.message, "customType").value_or("");
    if (!type.starts_with("sessiond.") || json::string_at(row.entry.message, "type") != "custom") return false;
    leave_out("entry of type " + type);
    return true;
  }

  // Notes the entries of this part that are left out. `first`: the place of its first row.
  void note_left_out(std::size_t first) {
    std::size_t next = places_.count();
    for (const context::Line& line : lines_ | std::views::reverse) {
      const auto place = places_.of(line.id);
      if (place && *place >= first)
        next = *place;
      else
        places_.leave_out(line.id, next);
    }
  }

  std::string text_of(const context::Row& row, std::size_t place) const {
    const Stored& entry = part_.at(row.seq);
    const context::Line& line = line_of(row);
    std::string text = entry.text;
    if (row.id.empty())
      text = with_message("{}", row.entry.message);
    else if (line.type == "compaction")
      text = with_kept(std::move(text), place);
    else if (line.type == "custom_message" && row.entry.fit == context::Fit::mended)
      text = context::mended(row.entry);
    else if (line.type == "message" && row.entry.message != line.body)
      text = with_message(entry.text, row.entry.message);
    json::Edit edit;
    const std::string& id = places_.id_at(place);
    const std::string parent = place == 0 ? "null" : json::quote(places_.id_at(place - 1));
    if (json::string_at(text, "id") != id) edit.put_string("id", id);
    if (json::find(text, "parentId") != parent) edit.put("parentId", parent);
    if (!json::string_at(text, "timestamp")) edit.put_string("timestamp", transcripts::iso_time(entry.time));
    return edit.set.empty() ? text : json::apply(text, edit);
  }

  // Names the first entry that a checkpoint keeps, in the order of this conversation.
  std::string with_kept(std::string text, std::size_t own) const {
    std::optional<std::size_t> first;
    const auto keep = [&first, own](std::optional<std::size_t> place) {
      if (place && *place < own) first = std::min(first.value_or(own), *place);
    };
    const context::Kept kept = context::Kept::read(text);
    const auto id = json::string_at(text, "firstKeptEntryId");
    if (kept.first_shown) {
      keep(places_.of(*kept.first_shown));
      for (const std::string& word : kept.words) keep(places_.of(word));
    } else if (id) {
      keep(places_.of(*id));
    } else if (const auto index = json::int_at(text, "firstKeptEntryIndex");
               index && *index > 0 && !facts_.header.empty()) {
      keep(places_.of_seq(static_cast<std::uint64_t>(*index - 1)));
    }
    json::Edit edit;
    if (first && places_.id_at(*first) != id) {
      edit.put_string("firstKeptEntryId", places_.id_at(*first));
      edit.remove("firstKeptEntryIndex");
    }
    if (kept.first_shown) {
      const std::string details = context::Kept::without(json::find(text, "details").value_or("{}"));
      if (details == "{}")
        edit.remove("details");
      else
        edit.put("details", details);
    }
    return json::apply(text, edit);
  }

  SessionFacts facts_;
  std::int64_t time_ = 0;
  bool is_old_ = false;  // of version 1 or 2
  // The entries that are not written yet, and their texts by seq.
  std::vector<context::Line> lines_{};
  std::unordered_map<std::uint64_t, Stored> part_{};
  std::size_t bytes_ = 0;
  std::size_t look_at_ = part_bytes;
  context::CallBook book_{};  // of this part
  context::ShownIds shown_ids_{};
  Places places_{};
  LeftOut left_out_{};
};

}  // namespace

std::unique_ptr<Writer> write_conversation(SessionFacts facts) {
  return std::make_unique<ConversationWriter>(std::move(facts));
}

std::optional<End> read_end(std::string_view line) {
  if (!line.contains(end_type) || !json::check(line)) return {};  // most; one that broke off
  if (json::string_at(line, "customType") != end_type) return {};
  if (json::string_at(line, "type") != "custom" || json::find(line, "id")) return {};
  const std::string_view data = json::find(line, "data").value_or("{}");
  End end{.more = static_cast<std::size_t>(json::int_at(data, "more").value_or(0))};
  for (const json::Member& count : json::members(json::find(data, "leftOut").value_or("{}")))
    end.left_out[json::unescape(count.name)] += static_cast<std::size_t>(json::as_int(count.value).value_or(0));
  return end;
}

}  // namespace sessiond::formats
