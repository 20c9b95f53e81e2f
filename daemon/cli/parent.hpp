// How commands are declared to CLI11: a command that has others below it, and the options that many commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/cli/command_line.hpp"
#include "daemon/cli/help.hpp"
#include "daemon/cli/option_checks.hpp"

namespace sessiond::cli {

inline void add_places(CLI::App& command, std::optional<std::string>& config, std::optional<std::string>& state_dir) {
  command.add_option("--config", config, "The configuration file")->type_name("FILE")->check(not_empty());
  command.add_option("--state-dir", state_dir, "The state directory, instead of stateDir")
      ->type_name("DIR")
      ->transform(absolute());
}

inline void add_asked(CLI::App& command, Asked& asked) {
  add_places(command, asked.where.config, asked.where.state_dir);
  command.add_option("--url", asked.url, "A daemon elsewhere, instead of this user's socket: http://127.0.0.1:7433")
      ->type_name("URL")
      ->check(not_empty());
  command.add_option("--token-file", asked.token_file, "The file with the token for --url")
      ->type_name("FILE")
      ->check(not_empty())
      ->needs("--url");
  command.add_flag("--json", asked.json, "Print the daemon's answer");
}

inline void add_agent(CLI::App& command, std::optional<std::string>& agent, const char* about) {
  command.add_option("--agent", agent, about)->type_name("AGENT")->check(not_empty());
}

inline void add_session(CLI::App& command, NamedSession& session) {
  command.add_option("session", session.key, "The session's key, or its id")
      ->type_name("KEY")
      ->required()
      ->check(not_empty());
  add_agent(command, session.agent, "The agent, where the key does not name it; main by default");
}

// A command that has others below it: the program itself, or a group such as sessiond token.
struct Parent {
  CLI::App& app;
  std::optional<Command>& chosen;

  // Adds a command that only has others below it.
  Parent group(const char* name, const char* about, const std::string& footer) const {
    CLI::App& command = *app.add_subcommand(name, about);
    command.require_subcommand(1);
    command.footer(footer);
    return {command, chosen};
  }

  // Adds a command. Its options fill an `Options`, which becomes the chosen command when it is parsed.
  template <class Options>
  std::pair<CLI::App&, Options&> add(const char* name, const char* about, const char* footer) const {
    CLI::App& command = *app.add_subcommand(name, about);
    command.footer(footer);
    const auto options = std::make_shared<Options>();
    command.callback([&result = chosen, options] { result = Command(*options); });
    if constexpr (requires { options->where; }) add_places(command, options->where.config, options->where.state_dir);
    if constexpr (requires { options->asked; }) {
      add_asked(command, options->asked);
      command.footer(std::string(footer) + help::asked_exit_codes);
    }
    if constexpr (requires { options->listen; }) add_places(command, options->config, options->state_dir);
    return {command, *options};
  }
};

}  // namespace sessiond::cli
