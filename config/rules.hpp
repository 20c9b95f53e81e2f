// Rules for values beyond their type: ranges and rules for strings, which config/describe.hpp names for each key. A
// string rule returns what is wrong, or "".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sessiond::config {

struct Any {};  // every value of the type

struct Between {  // both ends included
  std::int64_t least;
  std::int64_t most;
};

struct BetweenOrUnlimited {  // or "unlimited": Config::unlimited
  Between range;
};

struct BetweenReal {
  double least;
  double most;
};

using TextRule = std::string (*)(std::string_view text);

struct OneOrMany {  // a list; a single string means a list of one
  TextRule each;
};

struct RawObject {};  // any JSON object, kept as text

std::string state_dir_fault(std::string_view text);       // absolute or below ~
std::string file_path_fault(std::string_view text);       // absolute, below ~ or below {stateDir}
std::string origin_fault(std::string_view text);          // "https://host[:port]"
std::string listen_address_fault(std::string_view text);  // see parse_listen_address
std::string host_name_fault(std::string_view text);       // a host as in a Host header, without port
bool is_outside(std::string_view path_template);          // not below the state directory
std::string path_template_fault(std::string_view text);   // {agentId} one whole directory
std::string main_key_fault(std::string_view text);
std::string trigger_fault(std::string_view text);
std::string field_name_fault(std::string_view text);  // of an entry
std::string key_prefix_fault(std::string_view text);
std::string agent_name_fault(std::string_view text);
std::string tool_name_fault(std::string_view text);  // or its beginning and a *
std::string instructions_fault(std::string_view text);
std::string model_name_fault(std::string_view text);  // of a model or provider
std::string channel_name_fault(std::string_view text);
std::string link_name_fault(std::string_view text);  // a canonical peer
std::string link_peer_fault(std::string_view text);  // <channel>:<peer>

}  // namespace sessiond::config
