#include "daemon/cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "config/similar.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/demo.hpp"
#include "daemon/cli/help.hpp"

namespace sessiond::cli {
namespace {

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.set_help_flag("-h,--help", "Print this help");
    app_.set_version_flag("--version", std::string("sessiond ") + SESSIOND_VERSION);
    app_.footer(help::program);
    add_commands(app_, chosen_);
  }

  std::variant<Command, Answered> parse(std::span<const std::string> arguments) {
    if (!arguments.empty() && arguments.front() == "help") return help_of(arguments.subspan(1));
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    try {
      app_.parse(std::move(reversed));
    } catch (const CLI::ParseError& error) {
      return answer(error, arguments);
    }
    return std::move(*chosen_);
  }

  CommandWords words() { return words_of(app_); }

 private:
  static CommandWords words_of(CLI::App& command) {
    CommandWords words{.name = command.get_name(), .about = command.get_description()};
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_lnames().empty()) continue;
      const std::string type = option->get_type_name();
      words.options.push_back({.name = "--" + option->get_lnames().front(),
                               .about = option->get_description(),
                               .takes_value = option->get_items_expected_max() > 0 && !type.empty(),
                               .takes_path = type == "FILE" || type == "DIR"});
    }
    for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; }))
      words.subcommands.push_back(words_of(*below));
    return words;
  }

  // "help token create" is "token create --help".
  std::variant<Command, Answered> help_of(std::span<const std::string> words) {
    CLI::App* at = &app_;
    std::vector<std::string> asked;
    for (const std::string& word : words) {
      if (word.starts_with('-')) continue;  // help --help
      const auto named = at->get_subcommands([&word](const CLI::App* each) { return each->get_name() == word; });
      if (named.empty()) return unknown(*at, word);
      at = named.front();
      asked.push_back(word);
    }
    asked.emplace_back("--help");
    return CommandLine().parse(asked);
  }

  CLI::App* deepest() {
    CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
    return at;
  }

  Answered answer(const CLI::ParseError& error, std::span<const std::string> arguments) {
    if (error.get_exit_code() == 0) {
      std::ostringstream out;
      std::ostringstream err;
      app_.exit(error, out, err);
      return {.exit_code = 0, .out = out.str(), .err = err.str()};
    }
    CLI::App* at = deepest();
    // CLI11 only says that a subcommand is missing.
    if (error.get_name() == "RequiredError" && at->get_subcommands().empty() && !at->remaining().empty())
      return unknown(*at, at->remaining().front());
    return mistake(*at, error.what(), hint(*at, arguments));
  }

  Answered unknown(CLI::App& at, const std::string& word) const {
    return mistake(at, fmt::format("there is no command {}", word), hint(at, {&word, 1}));
  }

  Answered mistake(CLI::App& at, std::string_view what, std::string_view hint) const {
    const std::string path = &at == &app_ ? "sessiond" : full_name(at);
    // For these commands, exit code 2 is a statement about the files.
    const int code = at.get_name() == "doctor" || at.get_name() == "restore" ? 64 : 2;
    return {.exit_code = code, .err = fmt::format("{}: {}\n{}try: {} --help\n", path, what, hint, path)};
  }

  std::string full_name(const CLI::App& command) const {
    std::string name = command.get_name();
    for (const CLI::App* at = command.get_parent(); at != nullptr && at != &app_; at = at->get_parent())
      name = at->get_name() + " " + name;
    return "sessiond " + name;
  }

  // Suggests a known word for the first unknown one.
  static std::string hint(CLI::App& at, std::span<const std::string> arguments) {
    std::vector<std::string> known;
    for (const CLI::App* each : at.get_subcommands([](CLI::App*) { return true; })) known.push_back(each->get_name());
    for (const CLI::Option* each : at.get_options())
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    for (const std::string& argument : arguments) {
      const std::string word = argument.substr(0, argument.find('='));
      if (word == at.get_name() || std::ranges::find(known, word) != known.end()) continue;
      if (const std::string near = config::nearest(word, known); !near.empty())
        return fmt::format("did you mean {}?\n", near);
    }
    return {};
  }

  CLI::App app_{"sessiond keeps the sessions of AI agents: one daemon, an HTTP API, files that you can read.",
                "sessiond"};
  std::optional<Command> chosen_{};
};

int run(const serve::ServeOptions& options) { return options.demo ? serve_demo(options) : serve::serve(options); }

int run(const VersionCommand&) {
  fmt::print("sessiond {}\n", SESSIOND_VERSION);
  return 0;
}

}  // namespace

CommandWords command_words() { return CommandLine().words(); }

std::variant<Command, Answered> parse_command_line(std::span<const std::string> arguments) {
  return CommandLine().parse(arguments);
}

int run_command_line(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto parsed = parse_command_line(arguments);
  int code = 0;
  if (const auto* answered = std::get_if<Answered>(&parsed)) {
    fmt::print("{}", answered->out);
    fmt::print(stderr, "{}", answered->err);
    code = answered->exit_code;
  } else {
    code = std::visit([](const auto& command) { return run(command); }, std::get<Command>(parsed));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "sessiond: stdout could not be written\n");
    return code == 0 ? 1 : code;
  }
  return code;
}

}  // namespace sessiond::cli
