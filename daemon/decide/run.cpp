#include "daemon/decide/run.hpp"

#include <algorithm>
#include <array>

namespace sessiond::decide {
namespace {

constexpr auto names = std::to_array<std::string_view>(
    {"queued", "running", "aborting", "done", "failed", "interrupted", "dropped", "expired"});

}  // namespace

std::string_view name(RunStatus status) { return names.at(static_cast<std::size_t>(status)); }

std::optional<RunStatus> run_status(std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return {};
  return static_cast<RunStatus>(found - names.begin());
}

const Run* SessionRuns::find_queued(std::string_view id) const {
  const auto found = std::ranges::find(queued, id, &Run::id);
  return found == queued.end() ? nullptr : &*found;
}

const Finished* SessionRuns::find_finished(std::string_view id) const {
  const auto found = std::ranges::find(finished, id, &Finished::run_id);
  return found == finished.end() ? nullptr : &*found;
}

const std::string* SessionRuns::find_ended(std::string_view id) const {
  const auto found = std::ranges::find(ended, id, &EndedRun::id);
  return found == ended.end() ? nullptr : found->json.get();
}

void take_texts(Run& run, Run before) {
  std::vector<std::string> texts;
  texts.reserve(run.input.size());
  auto fresh = run.texts.begin();
  auto from = before.input.begin();  // inputs keep their order, and new ones come last
  for (const std::string& id : run.input) {
    const auto known = std::find(from, before.input.end(), id);
    if (known == before.input.end()) {
      texts.push_back(fresh == run.texts.end() ? "" : std::move(*fresh++));
      continue;
    }
    const auto index = static_cast<std::size_t>(known - before.input.begin());
    texts.push_back(index < before.texts.size() ? std::move(before.texts[index]) : "");
    from = known + 1;
  }
  run.texts = std::move(texts);
}

void put_in_queue(std::deque<Run>& queue, Run run) {
  if (const auto there = std::ranges::find(queue, run.id, &Run::id); there != queue.end()) {
    take_texts(run, std::move(*there));
    *there = std::move(run);
    return;
  }
  const auto at = static_cast<std::ptrdiff_t>(place_in(queue, run));
  queue.insert(queue.begin() + at, std::move(run));
}

runs::Address address_of(const Run& run) {
  return {.reply_to = run.reply_to, .topic = run.topic ? std::string_view(*run.topic) : std::string_view()};
}

const runs::Overflow* SessionRuns::overflow_for(const Run& run) const {
  const auto found = std::ranges::find_if(
      overflows, [&run](const runs::Overflow& overflow) { return overflow.is_for(address_of(run)); });
  return found == overflows.end() ? nullptr : &*found;
}

std::string run_json(std::string_view key, const Run& run) {
  json::ObjectWriter out;
  out.string("runId", run.id);
  out.string("key", key);
  json::FieldWriter members(out, json::Show::clients);
  Run::describe_after_id(members, run);
  return out.text();
}

}  // namespace sessiond::decide
