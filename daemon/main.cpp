#include "daemon/cli/command_line.hpp"

int main(int argc, char** argv) { return sessiond::run_command_line(argc, argv); }
