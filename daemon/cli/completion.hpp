// sessiond completion bash|zsh|fish: prints a script for the shell that completes the commands and options of sessiond.
// It is made from the command line's own description.
#pragma once

#include <string>
#include <vector>

namespace sessiond::cli {

struct CompletionCommand {
  std::string shell{};  // bash, zsh or fish
};

// A command, with the words that may follow it.
struct CommandWords {
  std::string name{};
  std::string about{};
  struct Option {
    std::string name;  // --state-dir
    std::string about;
    bool takes_value = false;
    bool takes_path = false;
  };
  std::vector<Option> options{};
  std::vector<CommandWords> subcommands{};
};

std::string completion_script(const CommandWords& program, const std::string& shell);

int run(const CompletionCommand& command);

}  // namespace sessiond::cli
