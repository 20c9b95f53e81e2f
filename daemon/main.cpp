#include "daemon/cli/command_line.hpp"

// jemalloc's: pages that nobody uses go back to the system also while the daemon rests (agents leave memory then).
extern "C" const char* malloc_conf;
const char* malloc_conf = "background_thread:true";

int main(int argc, char** argv) { return sessiond::cli::run_command_line(argc, argv); }
