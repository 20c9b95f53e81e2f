#include "policy/media.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "policy/pointer.hpp"
#include "store/base64.hpp"
#include "store/json/raw_json.hpp"
#include "store/names.hpp"

namespace sessiond::policy {
namespace {

constexpr std::string_view blob_begin = R"({"type":"blob","sha256":")";  // of a handle
constexpr std::string_view blob_name = blob_begin.substr(1);
constexpr std::string_view entry_name = R"({"$blob":")";
constexpr std::size_t hash_digits = 64;
constexpr int deepest_json = 4;  // JSON in strings of JSON

bool is_blob_hash(std::string_view text) {
  return text.size() == hash_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string_view between_quotes(std::string_view string) { return string.substr(1, string.size() - 2); }
bool is_json_string(std::string_view value) { return json::kind(value) == json::Kind::string; }

// What takes the place of parts of a text, by their offset.
class ReplacedParts {
 public:
  explicit ReplacedParts(std::string_view whole) : whole_(whole) {}
  void put(std::string_view part, std::string with) {
    all_[static_cast<std::size_t>(part.data() - whole_.data())] = {part.size(), std::move(with)};
  }
  bool empty() const { return all_.empty(); }
  std::string text() const {
    std::string out;
    std::size_t at = 0;
    for (const auto& [offset, part] : all_) {
      out.append(whole_, at, offset - at).append(part.second);
      at = offset + part.first;
    }
    return out.append(whole_.substr(at));
  }

 private:
  std::string_view whole_;
  std::map<std::size_t, std::pair<std::size_t, std::string>> all_{};
};

// --- media to handles ---

// Base64 that stands in a part: the text between its quotes, and what the part says of its type.
struct FoundMedia {
  std::string_view base64{};
  std::string type{};
};

// The base64 of a data URL.
std::optional<FoundMedia> media_in_data_url(std::string_view value) {
  if (!is_json_string(value) || value.size() < small_media_text) return {};
  const std::string_view url = between_quotes(value);
  constexpr std::string_view begin = "data:";
  constexpr std::string_view end = ";base64,";
  const std::size_t comma = url.substr(0, 300).find(end);
  if (!url.starts_with(begin) || comma == std::string_view::npos) return {};
  std::string type = json::unescape(url.substr(begin.size(), comma - begin.size()));
  type.resize(std::min(type.size(), type.find(';')));  // without parameters
  return FoundMedia{.base64 = url.substr(comma + end.size()), .type = std::move(type)};
}

std::string media_type_in(std::string_view object) {
  for (const std::string_view name : {"mimeType", "media_type", "mime_type"})
    if (auto type = json::string_at(object, name)) return *type;
  if (auto format = json::string_at(object, "format")) return "audio/" + *format;  // input_audio
  return "application/octet-stream";
}

// Looks for base64 among the members of one object.
std::optional<FoundMedia> media_in_object(std::string_view object) {
  for (const json::Member& member : json::members(object)) {
    if (member.value.size() < small_media_text || !is_json_string(member.value)) continue;
    if (member.name == "url" || member.name == "image_url" || member.name == "file_data")
      if (auto found = media_in_data_url(member.value)) return found;
    if (member.name != "data") continue;
    if (auto found = media_in_data_url(member.value)) return found;
    std::string type = media_type_in(object);
    const bool is_media = type != "application/octet-stream" || json::string_at(object, "type") == "base64" ||
                          json::find(object, "mimeType").has_value();
    if (is_media) return FoundMedia{.base64 = between_quotes(member.value), .type = std::move(type)};
  }
  return {};
}

// Looks for base64 in a part: in itself, or in the member where a provider puts it.
std::optional<FoundMedia> media_in_part(std::string_view part) {
  constexpr std::array<std::string_view, 6> within{"source",     "image_url",   "input_audio",
                                                   "inlineData", "inline_data", "file"};
  for (const json::Member& member : json::members(part)) {
    if (member.value.size() < small_media_text || json::kind(member.value) != json::Kind::object) continue;
    if (std::ranges::find(within, member.name) == within.end()) continue;
    if (auto found = media_in_object(member.value)) return found;
  }
  return media_in_object(part);
}

// The kind of part that a handle is: what models are shown by.
std::string_view part_kind_of(std::string_view type) {
  for (const std::string_view kind : {"image", "audio", "video"})
    if (type.starts_with(kind)) return kind;
  return "document";
}

std::string base64_form_of(const store::Base64Form& form) {
  std::string out;
  if (form.url) out += " url";
  if (!form.padded) out += " unpadded";
  if (form.slashes) out += " slashes";
  return out.empty() ? out : out.substr(1);
}

class TakeMedia {
 public:
  TakeMedia(std::string_view whole, HashOf hash_of) : replaced_(whole), hash_of_(hash_of) {}

  void look(std::string_view value) {
    if (value.size() < small_media_text) return;
    if (json::kind(value) == json::Kind::array) {
      for (const std::string_view element : json::elements(value)) look(element);
    } else if (json::kind(value) == json::Kind::object && !take(value)) {
      for (const json::Member& member : json::members(value)) look(member.value);
    }
  }
  WithoutMedia result() && {
    if (replaced_.empty()) return {};
    return {.text = replaced_.text(), .media = std::move(media_)};
  }

 private:
  bool take(std::string_view value) {
    if (!media_in_part(value)) return false;
    const std::string part = json::compact(value);
    const auto found = media_in_part(part);
    auto decoded = found ? store::from_base64(found->base64) : std::nullopt;
    if (!decoded || decoded->bytes.size() <= small_media_bytes) return false;
    const auto at = static_cast<std::size_t>(found->base64.data() - part.data());
    const std::string_view before = std::string_view(part).substr(0, at);
    const std::string_view behind = std::string_view(part).substr(at + found->base64.size());
    std::string hash = hash_of_(decoded->bytes);
    json::ObjectWriter source;
    source.string("type", "blob");
    source.string("sha256", hash);
    source.string("media_type", found->type);
    source.integer("bytes", static_cast<std::int64_t>(decoded->bytes.size()));
    source.raw("was", fmt::format("[{},{}]", json::quote(before), json::quote(behind)));
    if (const std::string form = base64_form_of(decoded->form); !form.empty()) source.string("form", form);
    replaced_.put(value, fmt::format(R"({{"type":"{}","source":{}}})", part_kind_of(found->type), source.text()));
    media_.push_back({.sha256 = std::move(hash), .bytes = std::move(decoded->bytes)});
    return true;
  }

  ReplacedParts replaced_;
  HashOf hash_of_;
  std::vector<Media> media_{};
};

// --- handles of clients ---

class FindHandles {
 public:
  FindHandles(std::string_view whole, WrittenHandles& out, int nested) : replaced_(whole), out_(out), nested_(nested) {}

  void look(std::string_view value, const std::string& pointer) {
    switch (json::kind(value)) {
      case json::Kind::object:
        take(value, pointer);
        for (const json::Member& member : json::members(value))
          if (may_hold_handle(member.value)) look(member.value, pointer_to(pointer, json::unescape(member.name)));
        break;
      case json::Kind::array: {
        std::size_t index = 0;
        for (const std::string_view element : json::elements(value)) {
          if (may_hold_handle(element)) look(element, pointer_to(pointer, std::to_string(index)));
          ++index;
        }
        break;
      }
      case json::Kind::string:
        if (value.contains('\\')) within(value, pointer);
        break;
      default:
        break;
    }
  }
  std::string text() const { return replaced_.empty() ? "" : replaced_.text(); }

 private:
  void take(std::string_view object, const std::string& pointer) {
    const json::Index members(object);
    const auto type = members.string_at("type");
    auto hash = type == "blob" ? members.string_at("sha256") : std::nullopt;
    const bool of_entry = members.find("$blob").has_value();
    if (of_entry) hash = members.string_at("$blob");
    if (!hash || !is_blob_hash(*hash)) return;
    const std::string begin =
        of_entry ? fmt::format(R"({{"$blob":"{}")", *hash) : fmt::format(R"({{"type":"blob","sha256":"{}")", *hash);
    if (!object.starts_with(begin)) {
      std::string with = begin;
      for (const json::Member& member : json::members(object)) {
        const std::string name = json::unescape(member.name);
        if (name == "type" ? !of_entry : name == "sha256" ? !of_entry : name == "$blob") continue;
        with.append(",").append(json::quote(name)).append(":").append(json::compact(member.value));
      }
      replaced_.put(object, with + "}");
    }
    out_.found.push_back({.pointer = pointer, .sha256 = std::move(*hash)});
  }
  // A string that is JSON: what reads it may make JSON of it, so its handles count. It stays as it is.
  void within(std::string_view value, const std::string& pointer) {
    const std::string text = json::unescape(between_quotes(value));
    if (nested_ >= deepest_json || !(text.starts_with('{') || text.starts_with('[')) || !json::check(text)) return;
    WrittenHandles all;
    FindHandles find(text, all, nested_ + 1);
    find.look(text, "");
    for (WrittenHandle& found : all.found)
      out_.found.push_back({.pointer = pointer, .sha256 = std::move(found.sha256)});
  }

  ReplacedParts replaced_;
  WrittenHandles& out_;
  int nested_;
};

// --- handles to media ---

// The part that a handle was, with its base64. A client may have written the handle, so nothing of it is trusted.
std::string restored_part(std::string_view source, const std::string& bytes) {
  const auto has = [form = json::string_at(source, "form").value_or("")](std::string_view word) {
    return form.contains(word);
  };
  const std::string base64 =
      store::to_base64(bytes, {.url = has("url"), .padded = !has("unpadded"), .slashes = has("slashes")});
  std::vector<std::string> was;
  for (const std::string_view text : json::elements(json::find(source, "was").value_or("[]")))
    was.push_back(json::as_string(text).value_or(""));
  // '=' can only stand in a string, and is part of no escape: what is JSON with it is JSON with the base64.
  const auto is_part = [](const std::string& text) {
    return json::check(text) && json::kind(text) == json::Kind::object;
  };
  if (was.size() == 2 && is_part(was[0] + "=" + was[1])) return was[0] + base64 + was[1];
  return fmt::format(R"({{"type":"image","data":"{}","mimeType":{}}})", base64,
                     json::quote(json::string_at(source, "media_type").value_or("application/octet-stream")));
}

class ShowMedia {
 public:
  ShowMedia(std::string_view whole, MediaAs as, const BytesOf& bytes_of)
      : replaced_(whole), as_(as), bytes_of_(bytes_of) {}

  void look(std::string_view value) {
    if (!value.contains(blob_name)) return;
    if (json::kind(value) == json::Kind::array) {
      for (const std::string_view element : json::elements(value)) look(element);
    } else if (json::kind(value) == json::Kind::object && !show(value)) {
      for (const json::Member& member : json::members(value)) look(member.value);
    }
  }
  const ReplacedParts& replaced() const { return replaced_; }

 private:
  bool show(std::string_view part) {
    const std::string_view source = json::find(part, "source").value_or("");
    if (json::kind(source.empty() ? "null" : source) != json::Kind::object || !source.substr(1).starts_with(blob_name))
      return false;
    const std::string hash = json::string_at(source, "sha256").value_or("");
    if (!is_blob_hash(hash)) return false;
    if (as_ == MediaAs::url) {
      json::ObjectWriter url;
      url.string("type", "url");
      url.string("url", "/v1/blobs/" + hash);
      url.raw("media_type", json::find(source, "media_type").value_or("null"));
      url.raw("bytes", json::find(source, "bytes").value_or("null"));
      replaced_.put(source, url.text());
      return true;
    }
    if (const auto bytes = bytes_of_(hash)) {
      replaced_.put(part, restored_part(source, *bytes));
    } else {
      json::Edit edit;
      edit.put("unavailable", "true");
      replaced_.put(source, json::apply(source, edit));
    }
    return true;
  }

  ReplacedParts replaced_;
  MediaAs as_;
  const BytesOf& bytes_of_;
};

}  // namespace

namespace {

// Returns whether the object that begins at `at` is the member `source` of another one.
bool is_source(std::string_view json, std::size_t at) {
  const std::size_t begin = at - std::min<std::size_t>(at, 32);
  std::string_view before = store::trim(json.substr(begin, at - begin));
  if (!before.ends_with(':')) return false;
  before.remove_suffix(1);
  return store::trim(before).ends_with(R"("source")");
}

}  // namespace

WithoutMedia take_media(std::string_view json, HashOf hash_of) {
  if (!may_hold_media(json)) return {};
  TakeMedia take(json, hash_of);
  take.look(json);
  return std::move(take).result();
}

bool may_hold_handle(std::string_view json) {
  for (std::size_t at = json.find("blob"); at != std::string_view::npos; at = json.find("blob", at + 4)) {
    const std::string_view behind = json.substr(at + 4, 16);
    const std::size_t end = behind.find_first_not_of('\\');  // in strings of JSON it is escaped: \" or \u0022
    if (end != std::string_view::npos && (behind[end] == '"' || behind[end] == 'u')) return true;
  }
  return false;
}

WrittenHandles written_handles(std::string_view json, std::string_view pointer) {
  WrittenHandles out;
  if (!may_hold_handle(json)) return out;
  FindHandles find(json, out, 0);
  find.look(json, std::string(pointer));
  out.text = find.text();
  return out;
}

void names_in(std::string_view text, NamedBy by, const std::function<void(std::string_view hash)>& call) {
  for (const std::string_view begin : {blob_name, entry_name}) {
    if ((by == NamedBy::message && begin != blob_name) || (by == NamedBy::entry && begin != entry_name)) continue;
    for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at + 1)) {
      const std::string_view hash = text.substr(at + begin.size(), hash_digits);
      if (is_blob_hash(hash)) call(hash);
    }
  }
}

bool names_blob(std::string_view text, NamedBy by, std::string_view hash) {
  bool found = false;
  names_in(text, by, [&](std::string_view named) { found = found || named == hash; });
  return found;
}

std::size_t inlined_bytes(std::string_view json) {
  std::size_t bytes = json.size();
  for (std::size_t at = json.find(blob_begin); at != std::string_view::npos; at = json.find(blob_begin, at)) {
    const std::size_t begin = at;
    at += blob_begin.size();
    if (!is_blob_hash(json.substr(at, hash_digits)) || !is_source(json, begin)) continue;
    const std::string_view source = json::value_at(json, begin);
    // A client may have written the handle.
    const std::int64_t least = small_media_bytes, most = 64 << 20;
    const std::int64_t size = std::clamp(json::int_at(source, "bytes").value_or(least), least, most);
    bytes += store::base64_size(static_cast<std::size_t>(size));
    at = begin + source.size();
  }
  return bytes;
}

std::string with_media(std::string json, MediaAs as, const BytesOf& bytes_of) {
  if (as == MediaAs::handle || !std::string_view(json).contains(blob_name)) return json;
  if (!json::check(json, {.max_depth = json::foreign_depth})) return json;
  ShowMedia show(json, as, bytes_of);
  show.look(json);
  return show.replaced().empty() ? json : show.replaced().text();
}

}  // namespace sessiond::policy
