#include "daemon/cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "daemon/cli/command_line.hpp"

namespace sessiond::cli {
namespace {

// Calls back for a command and all below it; `path` are the names on the way to it, with spaces between.
void each_command(const CommandWords& command, const std::string& path,
                  const std::function<void(const std::string& path, const CommandWords&)>& call) {
  call(path, command);
  for (const CommandWords& below : command.subcommands)
    each_command(below, path.empty() ? below.name : path + " " + below.name, call);
}

std::vector<std::string> words_of(const CommandWords& command) {
  std::vector<std::string> words;
  words.reserve(command.subcommands.size() + command.options.size());
  for (const CommandWords& below : command.subcommands) words.push_back(below.name);
  for (const CommandWords::Option& option : command.options) words.push_back(option.name);
  return words;
}

// In single quotes, for all three shells.
std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("’") : std::string(1, c);
  return out + "'";
}

// bash and zsh: sets `words` to those that may follow what was typed. Returns 1 where a file's name follows.
std::string choice_of_words(const CommandWords& program) {
  std::string commands;
  std::string words;
  std::set<std::string> paths;
  each_command(program, "", [&](const std::string& path, const CommandWords& command) {
    if (!path.empty()) commands += (commands.empty() ? "" : "|") + single_quoted(path);
    const std::string following = fmt::format("{}", fmt::join(words_of(command), " "));
    words += "    " + single_quoted(path) + ") words=" + single_quoted(following) + " ;;\n";
    for (const CommandWords::Option& option : command.options)
      if (option.takes_path) paths.insert(option.name);
  });
  return R"sh(  local command='' word next words
  for word in $typed; do
    next="${command:+$command }$word"
    case "$next" in )sh" +
         commands + R"sh() command="$next" ;; esac
  done
  case "$previous" in )sh" +
         fmt::format("{}", fmt::join(paths, "|")) + R"sh() return 1 ;; esac
  case "$command" in
)sh" + words +
         "  esac\n";
}

std::string bash_script(const CommandWords& program) {
  return R"sh(# bash completion for sessiond: source <(sessiond completion bash)
_sessiond_words() {
  local typed="$1" previous="$2"
)sh" + choice_of_words(program) +
         R"sh(  printf '%s' "$words"
}
_sessiond() {
  local words
  COMPREPLY=()
  words="$(_sessiond_words "${COMP_WORDS[*]:1:COMP_CWORD-1}" "${COMP_WORDS[COMP_CWORD-1]}")" || return 0
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o bashdefault -o default -F _sessiond sessiond
)sh";
}

std::string zsh_script(const CommandWords& program) {
  return R"sh(#compdef sessiond
# zsh completion for sessiond: source <(sessiond completion zsh)
_sessiond_words() {
  local typed="$1" previous="$2"
)sh" + choice_of_words(program) +
         R"sh(  print -r -- "$words"
}
_sessiond() {
  emulate -L zsh -o sh_word_split
  local found
  found="$(_sessiond_words "${(j: :)words[2,CURRENT-1]}" "${words[CURRENT-1]}")" || { _files; return }
  compadd -- $found
}
compdef _sessiond sessiond
)sh";
}

std::string fish_script(const CommandWords& program) {
  std::string out = "# fish completion for sessiond: sessiond completion fish | source\ncomplete -c sessiond -f\n";
  each_command(program, "", [&out](const std::string& path, const CommandWords& command) {
    std::string seen;
    for (std::size_t at = 0; at < path.size();) {
      const std::size_t end = std::min(path.find(' ', at), path.size());
      seen += fmt::format("{}__fish_seen_subcommand_from {}", seen.empty() ? "" : "; and ", path.substr(at, end - at));
      at = end + 1;
    }
    std::string below;
    for (const CommandWords& each : command.subcommands) below += " " + each.name;
    std::string when = path.empty() ? "__fish_use_subcommand" : seen;
    const std::string at_end =
        path.empty() || below.empty() ? when : fmt::format("{}; and not __fish_seen_subcommand_from{}", when, below);
    for (const CommandWords& each : command.subcommands)
      out += fmt::format("complete -c sessiond -n '{}' -a {} -d {}\n", at_end, each.name, single_quoted(each.about));
    for (const CommandWords::Option& option : command.options)
      out += fmt::format("complete -c sessiond -n '{}' -l {} {}-d {}\n", when, option.name.substr(2),
                         option.takes_path    ? "-r -F "
                         : option.takes_value ? "-x "
                                              : "",
                         single_quoted(option.about));
  });
  return out;
}

}  // namespace

std::string completion_script(const CommandWords& program, const std::string& shell) {
  if (shell == "bash") return bash_script(program);
  return shell == "zsh" ? zsh_script(program) : fish_script(program);
}

int run(const CompletionCommand& command) {
  fmt::print("{}", completion_script(command_words(), command.shell));
  return 0;
}

}  // namespace sessiond::cli
