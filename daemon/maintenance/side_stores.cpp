#include "daemon/maintenance/side_stores.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "daemon/decide/agent_state.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/files.hpp"
#include "store/limits.hpp"
#include "store/names.hpp"
#include "transcripts/archive.hpp"

namespace sessiond::maintenance {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
constexpr Clock::duration shortest_pause = std::chrono::seconds(1);
constexpr int pause_by_count = 100;  // a pause is so many times as long as the count before it

// Tells whether a file is the transcript of a stream, or an archive of one.
bool is_of_stream(std::string_view name) {
  const auto named = transcripts::parse_file_name(name);
  if (!named || named->kind == transcripts::NamedFile::Kind::aside) return false;
  const std::size_t at = named->stem.rfind(decide::topic_mark);
  return at != std::string_view::npos &&
         store::is_stream_file(named->stem.substr(0, at), std::string(named->stem) + ".jsonl");
}

bool is_transcript(std::string_view name) {
  const auto named = transcripts::parse_file_name(name);
  return named && named->kind == transcripts::NamedFile::Kind::transcript &&
         store::check_session_id(named->stem.substr(0, named->stem.find(decide::topic_mark)));
}

void add(FilesTaken& taken, const fs::path& path) {
  const auto status = store::stat_of(path);
  if (!status || !S_ISREG(status->st_mode)) return;
  ++taken.count;
  taken.bytes += static_cast<std::uint64_t>(status->st_size);
}

}  // namespace

struct SideStores::State {
  std::atomic<bool> stop{false};
  std::mutex mutex{};
  // All of this: mutex
  std::optional<SideSizes> found{};
  bool counting = false;
  Clock::time_point next{};  // when the next count may begin

  // Blocks.
  void count(const ledger::Paths& paths) {
    const Clock::time_point began = Clock::now();
    SideSizes sizes;
    for (const std::string& agent : paths.agents()) {
      store::each_in(paths.root() / ledger::dir_beside(paths, agent, "logs"), [&](const fs::directory_entry& file) {
        if (!stop && file.path().extension() == ".jsonl") add(sizes.logs, file.path());
      });
      bool has_transcripts = false;
      store::each_in(paths.root() / paths.sessions_dir(agent), [&](const fs::directory_entry& file) {
        const std::string name = file.path().filename().native();
        if (!stop && is_of_stream(name)) add(sizes.streams, file.path());
        has_transcripts = has_transcripts || is_transcript(name);
      });
      std::error_code error;
      const bool is_indexed = fs::symlink_status(paths.store_file(agent), error).type() != fs::file_type::not_found;
      if (has_transcripts && !is_indexed && sizes.unindexed.size() < limits::agents_told)
        sizes.unindexed.push_back(agent);
      if (stop) return;
    }
    const std::scoped_lock lock(mutex);
    const Clock::time_point ended = Clock::now();
    next = ended + std::max(shortest_pause, (ended - began) * pause_by_count);
    found = sizes;
    counting = false;
  }
};

SideStores::SideStores(ledger::Ledger& ledger) : ledger_(ledger), state_(std::make_shared<State>()) { sizes(); }

SideStores::~SideStores() { state_->stop = true; }

std::optional<SideSizes> SideStores::sizes() {
  const auto& env = ledger_.parts().env;
  const std::scoped_lock lock(state_->mutex);
  if (!state_->counting && Clock::now() >= state_->next) {
    state_->counting = true;
    boost::asio::post(env.disk.get_executor(), [state = state_, paths = env.paths] { state->count(paths); });
  }
  std::optional<SideSizes> found = state_->found;
  if (found)
    std::erase_if(found->unindexed, [this](const std::string& agent) {  // it may just not be written yet
      return ledger::files_of(ledger_.parts().agents, agent).dirty;
    });
  return found;
}

}  // namespace sessiond::maintenance
