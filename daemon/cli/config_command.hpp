// sessiond config and sessiond doctor. The result goes to stdout, everything else to stderr. run() returns the exit
// code.
#pragma once

#include "daemon/cli/token_command.hpp"

namespace sessiond::cli {

struct ConfigShow {  // prints the effective configuration as JSON, and its origin on stderr
  Where where{};
};
struct ConfigCheck {
  Where where{};
};
struct ConfigDefaults {};
struct DoctorCommand {
  Where where{};
  bool json = false;
  bool repair = false;   // both need that no daemon runs
  bool migrate = false;  // after the repair
};

int run(const ConfigShow& command);
int run(const ConfigCheck& command);
int run(const ConfigDefaults& command);
int run(const DoctorCommand& command);

}  // namespace sessiond::cli
