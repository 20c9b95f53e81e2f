// journal/runs/<agent>.json keeps the runs of an agent (decide/run_book.hpp): one line with a checksum, written whole
// with each checkpoint in which they changed. It lies beside the journal and not in the agent's folder, which foreign
// programs clean up. Blocks.
#pragma once

#include <filesystem>
#include <string>

#include "daemon/decide/run_book.hpp"
#include "daemon/ledger/paths.hpp"
#include "store/journal/journal.hpp"

namespace sessiond::ledger {

std::filesystem::path runs_file(const Paths& paths, std::string_view agent);
// Reads the runs of an agent. A file that is absent says that it never had any. A damaged one is moved away, and the
// runs are made from the events that the journal still has; `repairs` then says so.
Result<decide::RunBook> read_runs(const std::filesystem::path& file, const std::string& agent,
                                  const journal::Journal& journal, std::vector<std::string>& repairs);
// Tells whether a file has a run that has not ended. It may say yes to one that has none.
bool may_have_open_runs(const std::filesystem::path& file);
Result<void> write_runs(const std::filesystem::path& file, std::string json);

}  // namespace sessiond::ledger
