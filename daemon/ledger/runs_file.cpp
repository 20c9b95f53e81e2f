#include "daemon/ledger/runs_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/decide/foreign.hpp"
#include "store/fault_point.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/names.hpp"
#include "store/sessions/disk.hpp"
#include "store/try.hpp"

namespace sessiond::ledger {
namespace {

Result<decide::RunBook> parse(std::string_view text) {
  text = store::trim(text);
  if (!json::check(text, {.max_depth = json::foreign_depth})) return fail(Code::degraded, "it is no JSON");
  if (!json::find(text, "crc") || !json::crc_fits(text)) return fail(Code::degraded, "its checksum does not fit");
  return decide::RunBook::from_json(text);
}

}  // namespace

std::filesystem::path runs_file(const Paths& paths, std::string_view agent) {
  return paths.journal_dir() / "runs" / (std::string(agent) + ".json");
}

Result<decide::RunBook> read_runs(const std::filesystem::path& file, const std::string& agent,
                                  const journal::Journal& journal, std::vector<std::string>& repairs) {
  const auto text = store::read_file(file);
  if (!text && text.error().code == Code::not_found) return decide::RunBook();
  if (!text) return std::unexpected(text.error());
  auto book = parse(*text);
  if (book) return book;
  const std::filesystem::path kept = file.native() + ".damaged." + store::time_for_names();
  TRY(sessions::move_file(file, kept));
  repairs.push_back(fmt::format("{} was damaged ({}): it is now {}, and the runs are those that the journal tells of",
                                file.native(), book.error().detail, kept.native()));
  decide::RunBook again;
  for (std::uint64_t from = journal.oldest(); from <= journal.head();) {
    TRY(auto page, journal.read(from, decide::replay_page_bytes));
    for (const journal::StoredBatch& batch : page.batches) {
      for (const journal::Bytes& bytes : batch.events) {
        const auto event = journal::parse_event(*bytes);
        if (event && event->envelope.agent == agent) again.apply(*event);
      }
    }
    from = page.next;
  }
  again.mark_dirty();
  return again;
}

bool may_have_open_runs(const std::filesystem::path& file) {
  const auto text = store::read_file(file);
  if (!text) return text.error().code != Code::not_found;
  return text->contains("\"active\":{") || text->contains("\"queued\":[");
}

Result<void> write_runs(const std::filesystem::path& file, std::string json) {
  TRY(store::make_dirs(file.parent_path()));
  TRY(store::replace_file(file, json::with_crc(std::move(json)) + "\n"));
  store::fault_point("runs.written");
  return {};
}

}  // namespace sessiond::ledger
