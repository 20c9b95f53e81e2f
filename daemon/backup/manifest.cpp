#include "daemon/backup/manifest.hpp"

#include <fmt/format.h>

#include "store/json/raw_json.hpp"
#include "store/number.hpp"

namespace sessiond::backup {
namespace {

constexpr std::int64_t format = 1;

}  // namespace

std::uint64_t Manifest::bytes() const {
  std::uint64_t all = 0;
  for (const auto& [name, file] : files) all += file.size;
  return all;
}

std::string to_json(const Manifest& manifest) {
  std::string files = "[";
  for (const auto& [name, file] : manifest.files)
    files += fmt::format("{}\n{{\"name\":{},\"size\":{},\"crc32\":\"{:08x}\"}}", files.size() > 1 ? "," : "",
                         json::quote(name), file.size, file.crc);
  json::ObjectWriter out;
  out.integer("format", format);
  out.string("sessiond", SESSIOND_VERSION);
  out.integer("createdAt", manifest.created_at);
  if (!manifest.as_of.empty()) out.string("asOf", manifest.as_of);
  out.string("pathTemplate", manifest.path_template);
  out.raw("files", files + "\n]");
  return out.text() + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  const auto damaged = [] { return fail(Code::validation_failed, fmt::format("{} is damaged", manifest_name)); };
  if (!json::check(text)) return damaged();
  if (json::int_at(text, "format") != format)
    return fail(Code::validation_failed,
                fmt::format("{} has a format that sessiond {} does not know", manifest_name, SESSIOND_VERSION));
  Manifest manifest{.created_at = json::int_at(text, "createdAt").value_or(0),
                    .as_of = json::string_at(text, "asOf").value_or(""),
                    .path_template = json::string_at(text, "pathTemplate").value_or("")};
  for (const std::string_view one : json::elements(json::find(text, "files").value_or("[]"))) {
    const auto name = json::string_at(one, "name");
    const auto size = json::int_at(one, "size");
    const std::string digits = json::string_at(one, "crc32").value_or("");
    const auto crc = store::parse_number<std::uint32_t>(digits, 16);
    if (!name || !size || *size < 0 || !crc || digits.size() != 8) return damaged();
    manifest.files[*name] = {.size = static_cast<std::uint64_t>(*size), .crc = *crc};
  }
  return manifest;
}

}  // namespace sessiond::backup
