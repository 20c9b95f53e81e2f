#include "daemon/api/audit.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "daemon/api/handler.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/run_on.hpp"
#include "policy/secret_scan.hpp"
#include "store/clock.hpp"
#include "store/files.hpp"
#include "store/json/raw_json.hpp"

namespace sessiond::api {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds gather_time{200};
constexpr std::chrono::milliseconds retry_time{1000};
constexpr std::size_t gather_bytes = 256 << 10;  // with this much, lines are written at once
constexpr std::size_t most_gathered = 4U << 20;  // more lines than this are dropped and counted
constexpr std::size_t tail_bytes = 4U << 20;     // how much of each file is searched for the newest lines
constexpr int kept = 4;                          // older files

bool refuses(int status) { return status == 401 || status == 403 || status == 421 || status == 429; }

// Routes that are logged only when refused. Some publish something that is not stored, many times a second. What POST
// /mcp does is requests of the API, which are logged by themselves.
bool is_logged_refused_only(const http::Router::Route& route) {
  return route.pattern.ends_with("/typing") || route.pattern.ends_with("/deltas") || route.pattern == "/mcp";
}

// Returns whether the session is named as it is: of one that is not, nothing else is told either.
bool write_params(json::ObjectWriter& out, const http::Router::Route& route, const http::Request& request,
                  const AuditLog::NameSession& name) {
  std::string_view agent;
  bool is_plain = true;
  for (std::size_t i = 0; i < std::min(route.params.size(), request.params.size()); ++i) {
    const std::string& value = request.params[i];
    if (route.params[i] == "agent") agent = value;
    const auto hidden = route.params[i] == "key" ? name(agent, value) : std::nullopt;
    is_plain = is_plain && !hidden;
    if (hidden)
      out.string(route.params[i], *hidden);
    else if (policy::find_secret(value))
      out.string(route.params[i], policy::without_secrets(value));
    else
      out.string(route.params[i], value);
  }
  return is_plain;
}

// Names the session of an inbound message as its answer does.
void write_session_of_inbound(json::ObjectWriter& out, const http::Response& response,
                              const AuditLog::NameSession& name) {
  const json::MemberIterator first(response.body);
  if (first == std::default_sentinel || first->name != "sessionKey") return;
  const bool plain = !first->value.contains('\\');
  const std::string_view inside = first->value.substr(1, first->value.size() - 2);
  if (const auto hidden = plain ? name("", inside) : name("", json::unescape(inside)))
    out.string("key", *hidden);
  else
    out.raw("key", first->value);
}

void append_line(std::string& lines, const http::Request& request, const http::Router::Route* route,
                 const http::Response& response, const AuditLog::NameSession& name) {
  json::ObjectWriter out(lines);
  out.integer("time", store::unix_ms());
  out.string("requestId", request.request_id);
  out.string("actor", request.principal.id);
  if (!request.principal.id.empty()) out.string("role", auth::name(request.principal.role));
  out.string("peer", request.peer);
  out.string("method", request.method);
  if (route != nullptr) {
    out.string("route", route->pattern);
    if (write_params(out, *route, request, name) && !request.person.empty())
      out.string("person", policy::without_secrets(request.person));
    if (request.is_dry_run) out.boolean("dryRun", true);
  }
  out.integer("status", response.status);
  if (response.status >= 400) {
    if (const auto code = json::string_at(response.body, "code")) out.string("code", *code);
  } else if (route != nullptr && route->pattern == "/v1/inbound") {
    write_session_of_inbound(out, response, name);
  }
  for (const auto& [header, value] : response.headers) {
    if (header == "ETag") out.string("rev", std::string_view(value).substr(1, value.size() - 2));
    if (header == "Idempotency-Replayed") out.boolean("replayed", true);
  }
  out.close();
  lines += '\n';
}

void rotate(const std::string& path) {
  for (int age = kept; age >= 1; --age) {
    const std::string newer = age == 1 ? path : fmt::format("{}.{}", path, age - 1);
    ::rename(newer.c_str(),
             fmt::format("{}.{}", path, age).c_str());  // a file that does not exist fails to move, which is fine
  }
}

// Appends `lines` to the log, and removes from their front what was written.
Result<void> append(const AuditLog::Options& options, std::string_view& lines) {
  TRY(store::make_dirs(options.path.parent_path()));
  while (!lines.empty()) {
    struct stat there{};
    const bool is_there = ::lstat(options.path.c_str(), &there) == 0;
    const std::uint64_t size = is_there ? static_cast<std::uint64_t>(there.st_size) : 0;
    const std::uint64_t room = options.max_bytes - std::min(size, options.max_bytes);
    // As many whole lines as fit into the file; a line longer than audit.maxBytes gets a file of its own.
    std::size_t fits = lines.size() <= room ? lines.size() : lines.rfind('\n', room) + 1;
    if (fits == 0 && size > 0) {
      rotate(options.path.native());
      continue;
    }
    if (fits == 0) fits = lines.find('\n') + 1;
    // Opened anew each time, so that whoever else rotates it may.
    TRY(auto fd, store::open_file(options.path, O_WRONLY | O_APPEND | O_CREAT));
    TRY(store::write_all(fd.get(), lines.substr(0, fits), options.path.native()));
    lines.remove_prefix(fits);
  }
  return {};
}

// Checks whether append() would work. Creates no file.
Result<void> try_to_open(const fs::path& path) {
  TRY(store::make_dirs(path.parent_path()));
  const auto fd = store::open_file(path, O_WRONLY | O_APPEND);
  if (fd || fd.error().code != Code::not_found) return fd ? Result<void>{} : std::unexpected(fd.error());
  if (::access(path.parent_path().c_str(), W_OK | X_OK) == 0) return {};
  return std::unexpected(io_problem("write", path.native(), errno));
}

Result<std::vector<std::string>> read_newest(const fs::path& path, std::size_t count) {
  std::vector<std::string> lines;
  for (int age = 0; age <= kept && lines.size() < count; ++age) {
    const std::string file = age == 0 ? path.native() : fmt::format("{}.{}", path.native(), age);
    const auto fd = store::open_file(file, O_RDONLY);
    if (!fd && fd.error().code == Code::not_found) break;
    if (!fd) return std::unexpected(fd.error());
    struct stat status{};
    if (::fstat(fd->get(), &status) != 0) return std::unexpected(io_problem("stat", file, errno));
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const std::uint64_t from = size > tail_bytes ? size - tail_bytes : 0;
    TRY(const auto text, store::read_at(fd->get(), from, static_cast<std::size_t>(size - from), file));
    std::string_view rest = text;
    while (!rest.empty() && lines.size() < count) {
      rest.remove_suffix(rest.ends_with('\n') ? 1 : 0);
      const std::size_t begin = rest.rfind('\n') + 1;  // npos + 1 is 0
      if (begin == 0 && from != 0) break;              // the line begins before `from`
      // A line that a kill cut short is left out.
      if (const std::string_view line = rest.substr(begin); json::check(line)) lines.emplace_back(line);
      rest = rest.substr(0, begin);
    }
  }
  std::ranges::reverse(lines);
  return lines;
}

}  // namespace

AuditLog::AuditLog(asio::io_context& io, asio::thread_pool& disk, Options options, NameSession name)
    : disk_(asio::make_strand(disk)), timer_(io), options_(std::move(options)), name_(std::move(name)) {}

void AuditLog::reconfigure(Options options) { options_ = std::move(options); }

void AuditLog::record(const http::Request& request, const http::Router::Route* route, const http::Response& response) {
  if (options_.path.empty()) return;
  const bool write =
      route != nullptr && !is_safe(request.method) && !(is_logged_refused_only(*route) && response.status < 400);
  if (!write && !refuses(response.status)) return;
  if (gathered_.size() > most_gathered) {
    ++dropped_;
    return;
  }
  append_line(gathered_, request, route, response, name_);
  schedule();
}

void AuditLog::check() {
  if (options_.path.empty()) return done({});
  done(try_to_open(options_.path));
  if (!trouble_.empty()) schedule();
}

void AuditLog::done(const Result<void>& written) {
  const std::string before = std::exchange(trouble_, written ? "" : written.error().detail);
  if (!trouble_.empty() && before.empty())
    log::error("audit_not_written", {{"error", trouble_}, {"next", "trying again"}});
  if (trouble_.empty() && !before.empty()) log::warn("audit_written_again", {{"dropped", std::exchange(dropped_, 0)}});
}

void AuditLog::schedule() {
  const bool at_once = gathered_.size() > gather_bytes && trouble_.empty();
  if (scheduled_) return;
  scheduled_ = true;
  timer_.expires_after(at_once ? std::chrono::milliseconds(0) : trouble_.empty() ? gather_time : retry_time);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    asio::co_spawn(timer_.get_executor(), flush(), [this](const std::exception_ptr&, const Result<void>& written) {
      scheduled_ = false;
      done(written);
      if (!gathered_.empty() || !trouble_.empty()) schedule();
    });
  });
}

asio::awaitable<Result<void>> AuditLog::flush() {
  if (options_.path.empty() || (gathered_.empty() && trouble_.empty())) co_return Result<void>{};
  const std::string lines = std::exchange(gathered_, {});
  std::string_view rest = lines;
  auto done = co_await runtime::run_on(
      disk_, [options = options_, &rest] { return rest.empty() ? try_to_open(options.path) : append(options, rest); });
  gathered_.insert(0, rest);
  co_return done;
}

asio::awaitable<Result<std::vector<std::string>>> AuditLog::newest(std::size_t count) {
  CO_TRY(co_await flush());
  if (options_.path.empty()) co_return fail(Code::not_found, "there is no audit log: audit.path is null");
  co_return co_await runtime::run_on(disk_, [path = options_.path, count] { return read_newest(path, count); });
}

}  // namespace sessiond::api
