#include "config/rules.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "config/listen_address.hpp"

namespace sessiond::config {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool has_control(std::string_view text) { return std::ranges::any_of(text, is_control); }
bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

std::string path_fault(std::string_view text, std::string_view start_of_other) {
  if (text.empty()) return "must not be empty";
  if (has_control(text)) return "holds a control character";
  if (text.starts_with('/') || text == "~" || text.starts_with("~/")) return {};
  if (!start_of_other.empty() && text.starts_with(start_of_other)) return {};
  if (text.starts_with('~')) return "only your own home directory can be written as ~: begin with ~/ or /";
  return fmt::format("must be an absolute path or begin with ~/{}{}", start_of_other.empty() ? "" : " or ",
                     start_of_other);
}

bool is_ipv6(std::string_view text) {
  in6_addr address{};
  return inet_pton(AF_INET6, std::string(text).c_str(), &address) == 1;
}

}  // namespace

std::string state_dir_fault(std::string_view text) {
  if (!text.empty() && text.find_first_not_of('/') == std::string_view::npos)
    return "must be a directory of its own, not the root of the file system";
  return path_fault(text, {});
}

std::string file_path_fault(std::string_view text) {
  if (text.ends_with('/') || text == "~") return "must name a file, not a directory";
  return path_fault(text, "{stateDir}/");
}

std::string origin_fault(std::string_view text) {
  const std::size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return "must be an origin: https://host or https://host:port (or http://)";
  std::string_view host = text.substr(scheme);
  if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos && !host.ends_with(']')) {
    const std::string_view port = host.substr(colon + 1);
    if (port.empty() || port.size() > 5 || !std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }))
      return "has a malformed port";
    host = host.substr(0, colon);
  }
  if (std::ranges::any_of(host, [](char c) { return c >= 'A' && c <= 'Z'; }))
    return "must be lower-case, as browsers send it";
  return host_name_fault(host).empty() ? "" : "must be an origin, with nothing after host and port: https://host:port";
}

std::string listen_address_fault(std::string_view text) {
  if (parse_listen_address(text)) return {};
  return "must be an IP address and a port (0..65535), as 127.0.0.1:7433, [::1]:7433 or localhost:7433; 0.0.0.0 or "
         "[::] "
         "is every interface; other names are not resolved";
}

std::string host_name_fault(std::string_view text) {
  if (text.empty()) return "must not be empty";
  if (text.front() == '[') {
    if (text.back() == ']' && is_ipv6(text.substr(1, text.size() - 2))) return {};
    return "is not an IPv6 address in brackets (no port)";
  }
  if (is_ipv6(text)) return fmt::format("an IPv6 address must be in brackets: [{}]", text);
  if (text.find(':') != std::string_view::npos) return "must be a host name or address without port";
  const bool fine = std::ranges::all_of(text, [](char c) { return is_alnum(c) || c == '.' || c == '-' || c == '_'; });
  return fine ? "" : "must be a host name or address: letters, digits, '.', '-' and '_'";
}

bool is_outside(std::string_view path_template) {
  return path_template.starts_with('/') || path_template.starts_with("~/");
}

std::string path_template_fault(std::string_view text) {
  if (text.empty()) return "must not be empty";
  if (has_control(text)) return "holds a control character";
  const bool outside = is_outside(text);
  if (text.starts_with('~') && !outside) return "may begin with ~/, not with another user's home";
  int placeholders = 0;
  std::string_view last;
  std::string_view rest = outside ? text.substr(text.find('/') + 1) : text;
  for (bool first = true;; first = false) {
    const std::size_t slash = rest.find('/');
    last = rest.substr(0, slash);
    if (last.empty()) return "holds an empty directory name";
    if (last == "." || last == "..") return "'.' and '..' are refused";
    if (first && !outside && (last == "journal" || last == "search"))
      return fmt::format("must not be in {}/, which belongs to the daemon", last);
    if (last == "{agentId}") {
      ++placeholders;
    } else if (last.find_first_of("{}") != std::string_view::npos) {
      return "the only placeholder is {agentId}, as the whole name of one directory";
    }
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (placeholders != 1 || last == "{agentId}")
    return "must contain {agentId} once, as the name of a directory: each agent has one of its own";
  if (!last.ends_with(".json")) return "must end in the name of a .json file";
  return {};
}

std::string main_key_fault(std::string_view text) {
  const auto allowed = [](char c) {
    return (is_alnum(c) && !(c >= 'A' && c <= 'Z')) || c == '.' || c == '-' || c == '_';
  };
  if (text.empty() || text.size() > 64 || !std::ranges::all_of(text, allowed))
    return "must be 1..64 lower-case letters, digits, '.', '-' or '_'";
  return {};
}

std::string trigger_fault(std::string_view text) {
  if (text.empty() || text.size() > 64) return "must be 1..64 bytes long";
  if (has_control(text)) return "holds a control character";
  if (text.front() == ' ' || text.back() == ' ') return "must not begin or end with a space: messages are trimmed";
  return {};
}

std::string field_name_fault(std::string_view text) {
  if (text.empty() || text.size() > 128) return "the name of a field must be 1..128 bytes long";
  return has_control(text) ? "must have no control character" : "";
}

std::string key_prefix_fault(std::string_view text) {
  if (text.empty() || text.size() > 512) return "a prefix of keys must be 1..512 bytes long";
  return has_control(text) ? "must have no control character" : "";
}

std::string agent_name_fault(std::string_view text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  const bool fine = !text.empty() && text.size() <= 64 && text.find_first_not_of(allowed) == std::string_view::npos;
  return fine ? "" : "the id of an agent is 1..64 of a-z 0-9 _ -";
}

std::string tool_name_fault(std::string_view text) {
  if (text.empty() || text.size() > 128) return "the name of a tool must be 1..128 bytes long";
  if (text.substr(0, text.size() - 1).contains('*')) return "may have a * only at its end";
  return has_control(text) ? "must have no control character" : "";
}

std::string instructions_fault(std::string_view text) {
  return text.empty() || text.size() > 65'536 ? "must be 1..65536 bytes long" : "";
}

std::string model_name_fault(std::string_view text) {
  if (text.empty() || text.size() > 256) return "must be 1..256 bytes long";
  return has_control(text) ? "must have no control character" : "";
}

std::string channel_name_fault(std::string_view text) {
  if (text.empty() || text.size() > 64) return "the name of a channel must be 1..64 bytes long";
  if (has_control(text) || text.contains(':') || text.contains(' '))
    return "must have no colon, space or control character";
  return {};
}

std::string link_name_fault(std::string_view text) {
  if (text.empty() || text.size() > 128) return "the name of a person must be 1..128 bytes long";
  const bool fine = std::ranges::none_of(text, [](char c) { return is_control(c) || c == ' ' || c == ':'; });
  return fine ? "" : "the name of a person becomes part of session keys: no ':', space or control character";
}

std::string link_peer_fault(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (has_control(text)) return "holds a control character";
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size())
    return "must be <channel>:<peer>, as \"slack:U012AB\"";
  return {};
}

}  // namespace sessiond::config
