// `sessiond doctor --repair` and `--migrate`: what the doctor can set right by itself. Nothing is destroyed: what is
// taken away or written over is kept (journal/kept/<time>/…, <file>.torn.<time>, <file>.corrupt.<time>,
// <segment>.damaged.<time>), and every step is one that can be interrupted and done again. The caller holds the state
// lock, so no daemon runs. Blocks.
#pragma once

#include "config/config.hpp"
#include "daemon/doctor/report.hpp"

namespace sessiond {

// Modes, temporary files that nobody writes any more, locks whose holder is gone, torn ends of transcripts. A damaged
// journal or store is rebuilt as a start with --repair does, by the same code. The report has the steps, and as
// findings only what could not be done.
Report run_repair(const Config& config);

// Transcripts of versions 1 and 2, and with flat or bare lines, written as version 3 (transcripts/migrate.hpp).
// Archived ones stay as they are.
Report run_migration(const Config& config);

}  // namespace sessiond
