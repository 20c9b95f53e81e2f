#include "daemon/cli/import_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "daemon/cli/import_sources.hpp"
#include "daemon/cli/uploader.hpp"
#include "store/try.hpp"

namespace sessiond::cli {
namespace {

constexpr double mib = 1 << 20;

// Shows on a terminal how far an import is, twice a second.
class Progress {
 public:
  void operator()(const ImportCounts& counts) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(500);
    shown_ = true;
    fmt::print(stderr, "\r\x1b[K{} sessions, {} entries, {:.1f} MiB", counts.sessions, counts.entries,
               static_cast<double>(counts.bytes) / mib);
    std::fflush(stderr);
  }
  void clear() {
    if (std::exchange(shown_, false)) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
};

Answer<ImportCounts> import_from(const ImportCommand& command) {
  const std::string name = command.from.value_or(command.layout.value_or(command.format.value_or("")));
  const auto found = import_source(name, command.path);
  if (!found) return ended(found.error().detail);
  const ImportSource& source = **found;
  TRY(const auto daemon, endpoint_of(command.asked));
  Progress progress;
  Uploader uploader(daemon, {.agent = command.agent,
                             .if_exists = command.if_exists,
                             .dry_run = command.dry_run,
                             .on_skip =
                                 [&](const formats::Skipped& skipped) {
                                   progress.clear();
                                   fmt::print(stderr, "{}{}{}\n", skipped.id, skipped.id.empty() ? "" : ": ",
                                              skipped.why);
                                 },
                             .on_progress = [&](const ImportCounts& counts) { progress(counts); }});
  auto done = source.read(command.path, uploader);
  if (done) done = uploader.finish();
  progress.clear();
  if (!done) return ended(done.error().detail);
  return uploader.counts();
}

}  // namespace

int run(const ImportCommand& command) {
  const auto counts = import_from(command);
  if (!counts) return told("import", counts.error());
  const std::string lines = counts->lines == 0 ? "" : fmt::format("; {} of their lines left out", counts->lines);
  if (command.asked.json) {
    fmt::print(R"({{"sessions":{},"entries":{},"created":{},"updated":{},"skipped":{},"linesLeftOut":{}}})"
               "\n",
               counts->sessions, counts->entries, counts->created, counts->updated, counts->skipped, counts->lines);
  } else if (command.dry_run) {
    fmt::print("{} sessions with {} entries would be imported, {} cannot be read{}\n", counts->sessions,
               counts->entries, counts->refused, lines);
  } else {
    fmt::print("{} created, {} updated, {} skipped{}\n", counts->created, counts->updated, counts->skipped, lines);
  }
  return counts->refused + counts->lines + counts->notes == 0 ? 0 : 1;
}

}  // namespace sessiond::cli
