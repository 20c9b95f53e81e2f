// A real ledger in a directory of its own, with the verbs of its life: open, close, kill, commit, checkpoint. The
// test's thread is the ledger's loop: nothing happens but while a verb runs.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/decide/commands.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/ledger/show.hpp"
#include "daemon/ledger/staging.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "store/journal/file_ops.hpp"
#include "tests/unit/temp_dir.hpp"

namespace sessiond::testing {

namespace asio = boost::asio;

class LedgerFixture {
 public:
  // `dir`: where the state directory is; empty: in a directory that goes with the fixture.
  explicit LedgerFixture(config::Config config = {}, const std::filesystem::path& dir = {})
      : config_(std::move(config)) {
    config_.state_dir = dir.empty() ? dir_.path().native() : dir.native();
    rules_.shared = config_.store.mode == config::Config::StoreMode::shared;
    open();
  }
  ~LedgerFixture() { close(); }
  LedgerFixture(const LedgerFixture&) = delete;
  LedgerFixture& operator=(const LedgerFixture&) = delete;

  void open() {
    io_ = std::make_unique<asio::io_context>(1);
    disk_ = std::make_unique<asio::thread_pool>(2);
    auto opened = ledger::Ledger::open(*io_, *disk_, config_, rules_, false, disk_that_may_fail());
    REQUIRE_MESSAGE(opened.has_value(), opened.error().detail);
    ledger_ = std::move(*opened);
  }
  // As the daemon ends: everything is in the files afterwards.
  void close() {
    if (!ledger_) return;
    stop();
    drop();
  }
  // As a killed daemon ends: no checkpoint, no goodbye. What was acknowledged is in the journal, the files are behind.
  void kill() {
    disk_->join();
    drop();
  }
  void stop() {
    bool stopped = false;
    asio::co_spawn(*io_, ledger_->stop(), [&stopped](const std::exception_ptr&) { stopped = true; });
    run_until([&] { return stopped; });
    disk_->join();
    io_->poll();  // what the disk threads have posted
  }
  void drop() {
    ledger_.reset();
    io_.reset();  // handlers that were not run refer to the ledger, and are destroyed unrun
    disk_.reset();
  }

  // Decides a command of daemon/decide/commands.hpp and commits what follows from it.
  template <class Command>
  Result<ledger::Reply> run(Command command, const std::string& agent = "main",
                            ledger::Requester who = {.actor = "test"}) {
    return await(ledger_->commit(agent, std::move(who), decision_of(std::move(command)), true));
  }
  Result<ledger::Reply> create(const std::string& key, const std::string& session_id,
                               const std::string& agent = "main") {
    return run(decide::CreateSession{.key = key, .session_id = session_id}, agent);
  }
  Result<ledger::Reply> append(const std::string& key, const std::string& text, const std::string& agent = "main") {
    return run(append_command(key, text), agent);
  }
  // Stages a transcript that says `texts`, and imports it as the session `key`.
  Result<ledger::Reply> import(const std::string& key, const std::string& session_id,
                               const std::vector<std::string>& texts, bool replace = false) {
    auto staged = stage(session_id, texts);
    decide::ImportSession command{.key = key, .session_id = session_id, .replace = replace};
    command.files = {{.name = staged.name()}};
    command.entry.put_int("messageCount", static_cast<std::int64_t>(texts.size()));
    staged.keep();
    return run(std::move(command));
  }
  transcripts::StagedTranscript stage(const std::string& session_id, const std::vector<std::string>& texts) {
    auto staged = await(
        ledger::stage(*ledger_, "main", session_id + ".jsonl", [&](transcripts::StagedTranscript& to) -> Result<void> {
          auto done = to.add(R"({"type":"session","version":3,"id":")" + session_id + R"("})");
          for (std::size_t at = 0; at < texts.size() && done; ++at)
            done = to.add(R"({"type":"message","id":"m)" + std::to_string(at) +
                          R"(","parentId":null,"message":{"role":"user","content":")" + texts[at] + R"("}})");
          return done;
        }));
    REQUIRE_MESSAGE(staged.has_value(), staged.error().detail);
    return std::move(*staged);
  }
  static decide::AppendMessages append_command(const std::string& key, const std::string& text) {
    decide::AppendMessages command{.target = {.key = key}, .append = {}};
    auto entry = transcripts::parse_entry(R"({"role":"user","text":")" + text + "\"}", "");
    REQUIRE(entry);
    command.append.entries.push_back(std::move(*entry));
    return command;
  }
  Result<void> checkpoint() { return await(ledger_->checkpointer().write_all()); }
  void checkpointed() {
    auto done = checkpoint();
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
  }

  // The keys of an agent's sessions, as a client is shown them; `fresh`: after looking at the disk.
  Result<std::vector<std::string>> keys(const std::string& agent = "main", bool fresh = false) {
    return await(ledger_->show(agent, fresh,
                               [](const decide::AgentState& state, ledger::Seen&) -> Result<std::vector<std::string>> {
                                 std::vector<std::string> out;
                                 for (const auto& [key, session] : state.by_name()) out.emplace_back(key);
                                 return out;
                               }));
  }
  std::vector<std::string> shown(const std::string& agent = "main", bool fresh = false) {
    auto found = keys(agent, fresh);
    REQUIRE_MESSAGE(found.has_value(), found.error().detail);
    return std::move(*found);
  }
  Result<std::string> entry(const std::string& key, const std::string& agent = "main", bool fresh = false) {
    return await(
        ledger_->show(agent, fresh, [key](const decide::AgentState& state, ledger::Seen&) -> Result<std::string> {
          const decide::Session* session = state.find(key);
          if (session == nullptr) return fail(Code::session_not_found, key);
          return *session->entry();
        }));
  }
  // The lines of a transcript without its header, as a client reads them.
  Result<std::vector<std::string>> lines(const std::string& file, const std::string& agent = "main") {
    return await(ledger_->read_transcript(agent, file,
                                          [](transcripts::Transcript& transcript) -> Result<std::vector<std::string>> {
                                            auto page = transcript.page({.limit = 1000});
                                            if (!page) return std::unexpected(std::move(page.error()));
                                            std::vector<std::string> out;
                                            for (const transcripts::StoredLine& line : page->lines)
                                              out.push_back(line.line);
                                            return out;
                                          }));
  }

  // From here on every write of the journal fails.
  void fail_disk() { *failing_ = true; }
  void heal_disk() { *failing_ = false; }

  template <class Until>
  void run_until(Until until) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!until()) {
      if (std::chrono::steady_clock::now() > give_up) FAIL("nothing came of it for a minute");
      io_->run_one_for(std::chrono::milliseconds(20));
    }
  }
  template <class Value>
  Value await(asio::awaitable<Value> call) {
    std::optional<Value> out;
    start(std::move(call), out);
    run_until([&] { return out.has_value(); });
    return std::move(*out);
  }
  // Begins a call; `out` is set when it ends. `out` must outlive the fixture's ledger.
  template <class Value>
  void start(asio::awaitable<Value> call, std::optional<Value>& out) {
    asio::co_spawn(*io_, std::move(call), [&out](const std::exception_ptr& failure, Value value) {
      REQUIRE(!failure);
      out.emplace(std::move(value));
    });
  }
  template <class Command>
  void start_run(Command command, std::optional<Result<ledger::Reply>>& out, const std::string& agent = "main") {
    start(ledger_->commit(agent, {.actor = "test"}, decision_of(std::move(command)), true), out);
  }

  ledger::Ledger& ledger() const { return *ledger_; }
  asio::io_context& io() { return *io_; }
  asio::thread_pool& disk() { return *disk_; }
  const config::Config& config() const { return config_; }
  // What lies in the agent's folder.
  std::filesystem::path in_agent(const std::string& name, const std::string& agent = "main") const {
    return std::filesystem::path(config_.state_dir) / "agents" / agent / "sessions" / name;
  }
  std::string store_text(const std::string& agent = "main") const { return text_of(in_agent("sessions.json", agent)); }
  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write_file(const std::filesystem::path& path, std::string_view bytes,
                         std::ios::openmode mode = std::ios::trunc) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | mode).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  template <class Command>
  static ledger::Decide decision_of(Command command) {
    return [command = std::move(command)](const decide::AgentState& state, const decide::Context& context,
                                          const decide::FetchedLines& lines) {
      if constexpr (requires { decide::decide(state, command, context, lines); }) {
        return decide::decide(state, command, context, lines);
      } else {
        return decide::decide(state, command, context);
      }
    };
  }
  std::shared_ptr<const journal::JournalFileOps> disk_that_may_fail() const {
    auto ops = std::make_shared<journal::JournalFileOps>();
    ops->write = [failing = failing_](int fd, const void* bytes, std::size_t length, off_t at) -> ssize_t {
      if (!*failing) return ::pwrite(fd, bytes, length, at);
      errno = EIO;
      return -1;
    };
    ops->create = [failing = failing_, create = ops->create](const std::filesystem::path& path) -> Result<store::Fd> {
      if (*failing) return fail(Code::storage_full, "the disk fails");
      return create(path);
    };
    return ops;
  }

  TempDir dir_;
  config::Config config_;
  decide::Rules rules_;
  std::shared_ptr<std::atomic<bool>> failing_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<asio::io_context> io_;
  std::unique_ptr<asio::thread_pool> disk_;
  std::unique_ptr<ledger::Ledger> ledger_;
};

}  // namespace sessiond::testing
