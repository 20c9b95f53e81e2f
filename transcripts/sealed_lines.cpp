#include "transcripts/sealed_lines.hpp"

#include <cassert>

namespace sessiond::transcripts {
namespace {

// Takes the last name off a path.
std::string_view take_name(std::string_view& path) {
  const std::size_t slash = path.find_last_of('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  path = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  return name;
}

}  // namespace

std::string seal_scope(std::string_view path) {
  const std::string_view file = take_name(path);
  std::string_view folder = take_name(path);
  // agents/<agent>/logs and …/changes: their files are called as transcripts are
  const std::string_view kind = folder == "logs" ? "log" : folder == "changes" ? "change" : "line";
  if (kind != "line") folder = take_name(path);
  if (folder == "sessions") folder = take_name(path);  // agents/<agent>/sessions
  return std::string(seal::Place{kind, folder, file.substr(0, file.find(".jsonl"))}.text());
}

void append_line(std::string& out, std::string_view line, const seal::Draw& draw, std::string_view scope,
                 std::uint64_t seq) {
  if (!draw) {
    out += line;
    return;
  }
  assert(line.ends_with('\n'));
  seal::append_sealed(out, line.substr(0, line.size() - 1), draw, {scope, seq});
  out += '\n';
}

std::size_t line_size(std::size_t plain, const seal::Draw& draw) {
  return draw ? seal::sealed_size(plain - 1, draw) + 1 : plain;
}

}  // namespace sessiond::transcripts
