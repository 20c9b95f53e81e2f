// Examines a state directory and says what is wrong and what to do about it. Changes nothing, takes no lock, and may
// run beside a daemon that writes: what is then in flight is no fault. Files are read in order, in pieces; memory is
// that of the largest sessions.json or the longest line, whatever the transcripts. Blocks, for minutes on a large
// store: a disk thread's work.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>

#include "daemon/doctor/report.hpp"

namespace sessiond {

struct DoctorOptions {
  std::filesystem::path state_dir;
  std::string path_template = "agents/{agentId}/sessions/sessions.json";  // store.pathTemplate
  bool lock_held = false;                     // the caller holds the state lock: no daemon runs
  const std::atomic<bool>* cancel = nullptr;  // set: the examination ends soon, and its report says so
};

Report run_doctor(const DoctorOptions& options);

}  // namespace sessiond
