#include "daemon/ledger/checkpoint_file.hpp"

#include "daemon/runtime/log.hpp"
#include "store/files.hpp"
#include "store/json/crc.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::ledger {

std::vector<std::string> Checkpoint::add_books(std::map<std::string, BooksOnDisk> there) {
  std::vector<std::string> gone;
  for (const auto& [id, noted] : books) {
    BooksOnDisk& found = there[id];
    if ((noted.runs && !found.runs) || (noted.outbox && !found.outbox)) gone.push_back(id);
    found = {.runs = noted.runs ? noted.runs : found.runs, .outbox = noted.outbox ? noted.outbox : found.outbox};
  }
  books = std::move(there);
  return gone;
}

Result<Checkpoint> read_checkpoint(const std::filesystem::path& path) {
  Checkpoint out;
  auto text = store::read_file(path);
  if (!text) {
    if (text.error().code == Code::not_found) return out;
    return std::unexpected(std::move(text.error()));
  }
  if (!json::check(*text) || !json::crc_fits(*text) || json::int_at(*text, "seq").value_or(-1) < 0) {
    log::warn("checkpoint_damaged", {{"path", path.string()}, {"next", "replaying the whole journal"}});
    out.damaged = true;
    return out;
  }
  out.known = true;
  out.seq = static_cast<std::uint64_t>(json::int_at(*text, "seq").value_or(0));
  const auto read = [&text](std::string_view name, std::map<std::string, std::uint64_t>& into) {
    for (const json::Member& member : json::members(json::find(*text, name).value_or("{}"))) {
      into[json::unescape(member.name)] = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
    }
  };
  read("agents", out.agents);
  read("previous", out.previous);
  read("written", out.written);
  const auto read_books = [&text, &out](std::string_view name, BooksOnDisk::Book book) {
    const std::string_view noted = json::find(*text, name).value_or("{}");
    if (json::kind(noted) == json::Kind::array) {
      for (const std::string_view id : json::elements(noted)) out.books[json::as_string(id).value_or("")].*book = 0;
      return;
    }
    for (const json::Member& member : json::members(noted))
      out.books[json::unescape(member.name)].*book = static_cast<std::uint64_t>(json::as_int(member.value).value_or(0));
  };
  read_books("runs", &BooksOnDisk::runs);
  read_books("outbox", &BooksOnDisk::outbox);
  return out;
}

}  // namespace sessiond::ledger
