// The formats whose documents hold one session each, by name.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "formats/conversation.hpp"
#include "formats/json.hpp"
#include "formats/manager.hpp"
#include "formats/relavium.hpp"
#include "formats/robota.hpp"

namespace sessiond::formats {

inline constexpr std::string_view yaml_type = "application/yaml";
inline constexpr std::string_view jsonl_type = "application/x-ndjson";

struct DocumentFormat {
  std::string_view name;
  // Null: it is only written.
  Result<void> (*read)(std::string_view document, const ReadOptions& options, Sink& sink);
  std::unique_ptr<Writer> (*write)(SessionFacts facts);
  std::string_view content_type = "application/json";
  // Writes a stream of the session behind the document, or behind the stream before. Null: documents have no streams.
  std::unique_ptr<Writer> (*write_stream)(std::string name, bool is_last) = nullptr;
};
inline constexpr std::array<DocumentFormat, 5> document_formats{
    {{"json", read_json, write_json},
     {"robota", read_robota, write_robota, "application/json", write_robota_stream},
     {"manager", read_manager, write_manager},
     {"relavium-yaml", nullptr, write_relavium, yaml_type},
     {"conversation", nullptr, write_conversation, jsonl_type}}};

// Null: there is none of this name.
constexpr const DocumentFormat* document_format(std::string_view name) {
  for (const DocumentFormat& format : document_formats)
    if (format.name == name) return &format;
  return nullptr;
}

}  // namespace sessiond::formats
