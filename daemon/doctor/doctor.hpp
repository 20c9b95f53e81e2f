// Examines a state directory and reports what is wrong and what to do about it. Changes nothing and takes no lock. May
// run beside a daemon: what the daemon is writing at the moment is not a fault. Reads files in pieces, so that memory
// is bounded by the largest sessions.json, the longest line, the largest blob and the names of blobs. Blocks, on a
// large store for minutes: runs on a disk thread.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>

#include "daemon/doctor/report.hpp"

namespace sessiond::doctor {

struct DoctorOptions {
  std::filesystem::path state_dir;
  std::string path_template = "agents/{agentId}/sessions/sessions.json";  // store.pathTemplate
  std::chrono::milliseconds damage_after{0};  // store.damageAfterMs: what changed since may be just being written
  bool lock_held = false;                     // the caller holds the state lock, so no daemon runs
  const std::atomic<bool>* cancel = nullptr;  // when it becomes true, the examination ends soon and its report says so
};

Report run_doctor(const DoctorOptions& options);

}  // namespace sessiond::doctor
