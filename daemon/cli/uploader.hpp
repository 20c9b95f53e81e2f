// Sends sessions to a daemon as they are read, as transcripts one after another (formats/jsonl.hpp), in parts of at
// most 4 MiB: several short sessions in one request, a long one in several. Holds little more than a few parts. What
// was sent before an end by force is there, and sending it again changes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "daemon/cli/asking.hpp"
#include "formats/reader.hpp"

namespace sessiond::cli {

struct ImportCounts {
  std::uint64_t sessions = 0, entries = 0, bytes = 0;  // read
  std::int64_t created = 0, updated = 0, skipped = 0;
  std::int64_t refused = 0;           // of the skipped ones, but for those that are there already
  std::int64_t lines = 0, notes = 0;  // that were left out of sessions which are taken; formats::Skipped::What::note
};

class Uploader final : public formats::Sink {
 public:
  struct Options {
    // Gets all sessions; those whose keys name another agent get keys of this one. Nothing: the one in each key, else
    // main.
    std::optional<std::string> agent{};
    std::string if_exists = "skip";  // replace, continue
    bool dry_run = false;            // reads, and sends nothing
    std::function<void(const formats::Skipped&)> on_skip{};
    std::function<void(const ImportCounts&)> on_progress{};
  };
  Uploader(const Endpoint& daemon, Options options) : daemon_(daemon), options_(std::move(options)) {}

  Result<void> session(formats::SessionHead head) override;
  Result<void> entry(std::string line) override;
  Result<void> end() override;
  void skip(formats::Skipped skipped) override;
  Result<void> finish();  // sends what is left, and waits for all answers
  const ImportCounts& counts() const { return counts_; }

 private:
  static constexpr std::size_t most_bytes = 4 << 20;  // of a part
  static constexpr std::size_t most_line = 7 << 20;   // a request holds no longer one
  static constexpr std::size_t most_sessions = 200;   // in a part
  static constexpr std::size_t most_under_way = 4;    // requests

  using Reply = Answer<std::string>;
  Result<void> send_whole();  // the sessions before the one that is being read
  Result<void> cut(std::size_t next, bool next_has_id);
  Result<void> send_part();             // what is there of the one that is being read
  Result<void> wait(std::size_t most);  // until so many requests are under way
  // The agent that the head belongs to. Gives the head a key of that agent, and keeps the one that it had.
  std::string place(formats::SessionHead& head) const;
  Reply post(const std::string& agent, const std::string& body, std::string_view if_exists) const;
  Result<void> take(const Reply& reply, bool of_part);

  const Endpoint& daemon_;
  Options options_;
  ImportCounts counts_{};
  std::string buffer_{};
  std::string agent_{};       // of all sessions in the buffer
  std::size_t sessions_ = 0;  // whole ones in the buffer
  std::size_t begin_ = 0;     // of the session that is being read
  formats::SessionHead head_{};
  bool in_parts_ = false;  // a part of it was sent
  bool has_ids_ = false;   // an entry of it in buffer_ has an id
  bool lost_ = false;      // a part of it was refused: the rest is not sent
  std::deque<std::future<Reply>> under_way_{};
};

}  // namespace sessiond::cli
