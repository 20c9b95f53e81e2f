// Brings what happens into the index: the journal's events in their order, and transcripts that were not read yet. An
// event that comes a second time, or that a transcript showed already, changes nothing. Blocks. The index's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "daemon/search/index.hpp"
#include "daemon/search/source.hpp"
#include "store/journal/event.hpp"

namespace sessiond::search {

class Feed {
 public:
  Feed(Index& index, Source& source) : index_(index), source_(source) {}

  // Takes in the events after `seq`, some of them. Returns the seq of the last one. bad_cursor: events are missing,
  // and the index must be made anew.
  Result<std::uint64_t> follow(std::uint64_t seq);
  // Reads all transcripts of an agent, as far as they are not in the index.
  Result<void> read_agent(const std::string& agent);

 private:
  // Holds the name or label that an event gives a session. The index gets the last one of a batch only: replacing a
  // text costs more than the patch that asked for it.
  struct Called {
    std::string session_id{}, channel{}, text{};
    std::int64_t time = 0;
  };

  Result<void> take(const journal::Event& event);
  Result<void> append(const journal::Event& event);
  std::vector<Doc*> of_session(const std::string& agent, const std::string& key);
  Result<void> archive(const journal::Event& event, const std::string& session_id);
  void name(const journal::Event& event);
  void mark(const journal::Envelope& about, bool archived);
  void write_names();
  Result<void> read_session(const std::string& agent, const std::string& key);
  Result<void> read_session(const std::string& agent, const KnownSession& session);
  Result<void> read_archives(const std::string& agent, const std::vector<KnownArchive>& archives);
  Result<void> read_archive(const std::string& agent, const KnownArchive& archive);
  Result<void> read(const DocName& name, const std::string& file, std::uint64_t as_of);
  void forget(const std::string& agent, const std::string& key);

  Index& index_;
  Source& source_;
  std::map<std::tuple<std::string, std::string, Role>, Called> called_{};  // by agent, key and name or label
  std::uint64_t done_ = 0;  // the event that follow() took in last; 0: it is not at work
};

}  // namespace sessiond::search
