#include "daemon/decide/run.hpp"

#include <algorithm>
#include <array>

namespace sessiond::decide {
namespace {

constexpr auto names = std::to_array<std::string_view>(
    {"queued", "running", "aborting", "done", "failed", "interrupted", "dropped", "expired"});

void put_times(json::ObjectWriter& out, const Run& run) {
  const auto put = [&out](std::string_view member, std::int64_t time) {
    out.raw(member, time == 0 ? "null" : std::to_string(time));
  };
  put("createdAt", run.created_at);
  put("startedAt", run.started_at);
  put("endedAt", run.ended_at);
}

// The members that the API shows and that are stored in the same form.
void put_common(json::ObjectWriter& out, const Run& run) {
  const auto put = [&out](std::string_view member, const std::string& text) {
    if (!text.empty()) out.string(member, text);
  };
  out.string("sessionId", run.session_id);
  out.string_or_null("topic", run.topic);
  out.string("status", name(run.status));
  put("runner", run.runner);
  out.integer("attempt", run.attempt);
  put("retryOf", run.retry_of);
  put_times(out, run);
  out.integer("steps", run.steps);
  out.raw("input", json::array_of(run.input));
  if (!run.reply_to.empty()) out.raw("replyTo", run.reply_to);
  put("model", run.model);
  put("provider", run.provider);
  put("modelSource", run.model_source);
  put("instructions", run.instructions);
  if (run.max_steps) out.integer("maxSteps", *run.max_steps);
  put("stopReason", run.stop_reason);
  put("stoppedBy", run.stopped_by);
  if (!run.error.empty()) out.raw("error", run.error);
  put("responseEntryId", run.response_entry);  // before the text: RunBook looks for it
  put("response", run.response);
  put("additionalContext", run.additional_context);
  if (!run.deliveries.empty()) out.raw("deliveries", run.deliveries);
  if (run.superseded) out.boolean("superseded", true);
}

std::vector<std::string> texts_of(std::string_view array) {
  std::vector<std::string> texts;
  for (const std::string_view text : json::elements(array)) texts.push_back(json::as_string(text).value_or(""));
  return texts;
}

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
  const auto found = std::ranges::find_if(
      ended, [id](const std::shared_ptr<const std::string>& run) { return json::string_at(*run, "runId") == id; });
  return found == ended.end() ? nullptr : found->get();
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

std::string overflow_json(const runs::Overflow& overflow) {
  std::vector<std::string> lines;
  std::vector<std::string> ids;
  for (const runs::Overflow::Line& line : overflow.lines) {
    lines.push_back(line.text);
    ids.push_back(line.entry_id);
  }
  json::ObjectWriter out;
  if (overflow.of) {
    out.raw("replyTo", overflow.of->reply_to.empty() ? "null" : overflow.of->reply_to);
    out.string("topic", overflow.of->topic);
  }
  out.integer("dropped", overflow.dropped);
  out.raw("lines", json::array_of(lines));
  out.raw("entryIds", json::array_of(ids));
  return out.text();
}

runs::Overflow read_overflow(std::string_view object) {
  runs::Overflow overflow;
  const std::vector<std::string> ids = texts_of(json::find(object, "entryIds").value_or("[]"));
  for (std::string& text : texts_of(json::find(object, "lines").value_or("[]"))) {
    const std::size_t index = overflow.lines.size();
    overflow.lines.push_back({.text = std::move(text), .entry_id = index < ids.size() ? ids[index] : ""});
  }
  overflow.dropped = json::int_at(object, "dropped").value_or(0);
  if (const auto reply_to = json::find(object, "replyTo"))
    overflow.of = {.reply_to = std::string(*reply_to), .topic = json::string_at(object, "topic").value_or("")};
  return overflow;
}

std::string run_json(std::string_view key, const Run& run) {
  json::ObjectWriter out;
  out.string("runId", run.id);
  out.string("key", key);
  put_common(out, run);
  return out.text();
}

std::string stored_run(const Run& run) {
  json::ObjectWriter out;
  out.string("runId", run.id);
  put_common(out, run);
  out.string("token", run.token);
  out.integer("readyAt", run.ready_at);
  if (run.age_created_at != 0) out.integer("ageCreatedAt", run.age_created_at);
  out.integer("leaseMs", run.lease_ms);
  out.integer("idleTimeoutMs", run.idle_timeout_ms);
  out.integer("origin", static_cast<std::int64_t>(run.origin));
  out.boolean("inStep", run.in_step);
  out.boolean("collects", run.collects);
  if (!run.texts.empty()) out.raw("texts", json::array_of(run.texts));
  if (!run.deleted.empty()) out.raw("deleted", json::array_of(run.deleted));
  if (run.is_settled) out.boolean("settled", true);
  return out.text();
}

Run read_run(std::string_view stored) { return read_run(json::Index(stored)); }

Run read_run(const json::Index& members) {
  const auto text = [&members](std::string_view name) { return members.string_at(name).value_or(""); };
  const auto raw = [&members](std::string_view name) { return std::string(members.find(name).value_or("")); };
  const auto number = [&members](std::string_view name) { return members.int_at(name).value_or(0); };
  const auto flag = [&members](std::string_view name) {
    return json::as_bool(members.find(name).value_or("false")).value_or(false);
  };
  Run run;
  run.id = text("runId");
  run.session_id = text("sessionId");
  run.topic = members.string_at("topic");
  run.status = run_status(text("status")).value_or(RunStatus::queued);
  run.runner = text("runner");
  run.token = text("token");
  run.attempt = std::max<std::int64_t>(number("attempt"), 1);
  run.retry_of = text("retryOf");
  run.created_at = number("createdAt");
  run.age_created_at = number("ageCreatedAt");
  run.started_at = number("startedAt");
  run.ended_at = number("endedAt");
  run.ready_at = number("readyAt");
  run.steps = number("steps");
  run.in_step = flag("inStep");
  run.reply_to = raw("replyTo");
  run.model = text("model");
  run.provider = text("provider");
  run.model_source = text("modelSource");
  run.instructions = text("instructions");
  run.max_steps = members.int_at("maxSteps");
  run.lease_ms = number("leaseMs");
  run.idle_timeout_ms = number("idleTimeoutMs");
  run.origin = static_cast<runs::Origin>(std::clamp<std::int64_t>(number("origin"), 0, 3));
  run.collects = flag("collects");
  run.stop_reason = text("stopReason");
  run.stopped_by = text("stoppedBy");
  run.error = raw("error");
  run.deliveries = raw("deliveries");
  run.response_entry = text("responseEntryId");
  run.response = text("response");
  run.additional_context = text("additionalContext");
  run.input = texts_of(members.find("input").value_or("[]"));
  run.texts = texts_of(members.find("texts").value_or("[]"));
  run.deleted = texts_of(members.find("deleted").value_or("[]"));
  run.superseded = flag("superseded");
  run.is_settled = flag("settled");
  return run;
}

}  // namespace sessiond::decide
