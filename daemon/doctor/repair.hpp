// `sessiond doctor --repair` and `--migrate`: what the doctor can repair by itself. Nothing is destroyed: what a repair
// removes or overwrites is kept (journal/kept/<time>/…, <file>.torn.<time>, <file>.corrupt.<time>,
// <segment>.damaged.<time>). Every step can be interrupted and repeated. The caller holds the state lock, so no daemon
// runs. Blocks.
#pragma once

#include "config/config.hpp"
#include "daemon/doctor/report.hpp"

namespace sessiond::doctor {

// Repairs file modes, abandoned temporary files, locks whose holder is gone, and torn ends of transcripts. Rebuilds a
// damaged journal or store as `serve --repair` does, with the same code. The report has the steps; its findings are
// what could not be repaired.
Report run_repair(const config::Config& config);

// Rewrites transcripts of versions 1 and 2, and those with flat or bare lines, as version 3 (transcripts/migrate.hpp).
// Leaves archived transcripts as they are.
Report run_migration(const config::Config& config);

}  // namespace sessiond::doctor
