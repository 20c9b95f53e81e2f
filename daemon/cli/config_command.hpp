// sessiond config and sessiond doctor. What was asked for goes to stdout, everything else to stderr; the answer is the
// exit code.
#pragma once

#include "daemon/cli/token_command.hpp"

namespace sessiond {

struct ConfigShow {  // the effective configuration as JSON; where it comes from on stderr
  Where where{};
};
struct ConfigCheck {
  Where where{};
};
struct ConfigDefaults {};
struct DoctorCommand {
  Where where{};
  bool json = false;
  bool repair = false;   // both only while no daemon runs
  bool migrate = false;  // after the repair
};

int run(const ConfigShow& command);
int run(const ConfigCheck& command);
int run(const ConfigDefaults& command);
int run(const DoctorCommand& command);

}  // namespace sessiond
