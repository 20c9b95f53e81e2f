// The objects of an entry whose members have a form of their own:
//   context             the workspace that a session works in:
//                       {"workingDir":"/w","activeFile"?,"selection"?:{"file","startLine","endLine"},"gitRef"?,
//                        "fsScopeTier":"sandboxed"|"project"|"full","variables"?:{name: text}}
//   systemPromptReport  "parts"?:[{"source":"default"|"skills"|"subagents"|"cwd"|"media"|"runtime","chars":n}]
// Other members are accepted. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/json/raw_json.hpp"
#include "store/problem.hpp"

namespace sessiond::policy {

// Returns the faults of what an edit, whose values are whole and not patches, sets: at most limits::faults of a field.
// A value that the entry `before` has already has none. Variables are shown to models and clients as they are, so a
// text among them that looks like a key is a fault, whatever policy.secretScan says. Pointers begin with
// `pointer_prefix`.
std::vector<Fault> object_faults(const json::Edit& edit, std::string_view before, std::string_view pointer_prefix);

// Gives the context that an edit sets a fsScopeTier, `tier`, if it names none. For an edit without faults.
void complete_objects(json::Edit& edit, std::string_view tier = "sandboxed");

// Returns the faults of a systemPromptReport that `pointer` points to.
std::vector<Fault> report_faults(std::string_view report, std::string_view pointer);

}  // namespace sessiond::policy
