#include "daemon/api/document_export.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/api/media.hpp"
#include "daemon/ledger/transcript_readers.hpp"
#include "formats/document.hpp"
#include "store/crc32.hpp"
#include "store/files.hpp"
#include "store/seal/sealed.hpp"
#include "transcripts/entry.hpp"
#include "transcripts/sealed_lines.hpp"

namespace sessiond::api {
namespace {

constexpr std::size_t step_bytes = 1 << 20;    // of entries read at once
constexpr std::size_t step_spans = 1'000;      // at most so many
constexpr std::size_t header_bytes = 1 << 20;  // a longer first line is taken for no header

std::string first_line_of(const std::filesystem::path& path) {
  const auto file = store::open_within(path, O_RDONLY | O_NONBLOCK);
  if (!file) return {};
  std::string text;
  for (std::size_t size = 4096; size <= header_bytes && text.find('\n') == std::string::npos; size *= 4) {
    text.resize(size);
    const ssize_t got = ::pread(file->get(), text.data(), size, 0);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    if (text.size() < size) break;
  }
  if (seal::is_sealed(text)) {
    const std::size_t end = text.find('\n');
    std::string opened;
    const seal::Place place(transcripts::seal_scope(path.native()), transcripts::header_seq);
    if (end == std::string::npos || !seal::open(std::string_view(text).substr(0, end), place, opened)) return {};
    text = std::move(opened) + '\n';
  }
  return header_in(text);
}

// The constants of one export.
struct Extent {
  std::vector<transcripts::SeqSpan> path{};
  transcripts::ShownChanges changes{};
  std::uint32_t leaf = 0;
};

// Returns a checksum of an entry. It tells a transcript from one that replaced it.
Result<std::uint32_t> checksum_of(auto& transcript, std::uint64_t seq) {
  std::uint32_t sum = 0;
  const transcripts::SeqSpan span{seq, seq};
  TRY(transcript.each({&span, 1}, [&sum](std::uint64_t, std::string_view line) {
    sum = store::crc32_of(line);
    return true;
  }));
  return sum;
}

}  // namespace

std::string header_in(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  const std::string_view line = text.substr(0, end);
  return transcripts::entry_type(line) == "session" ? std::string(line) : std::string();
}

asio::awaitable<std::string> header_of(Api& api, const TranscriptSource& source) {
  if (source.memory != nullptr) {
    const auto text = [](const transcripts::MemoryTranscript& transcript) -> Result<std::string> {
      return header_in(transcript.text());
    };
    auto line = co_await ledger::read_memory(api.ledger.parts().env, source.memory, text);
    co_return line ? std::move(*line) : std::string();
  }
  // Lines that were acknowledged may not be in the file yet; a fault shows when the transcript is read.
  if (!co_await transcript_tail(api, source.agent, source.file)) co_return std::string();
  const auto path = sessions_folder(api, source.agent) / source.file;
  co_return co_await on_disk(api, [path] { return first_line_of(path); });
}

asio::awaitable<Result<void>> DocumentExport::begin(std::unique_ptr<formats::Writer> writer) {
  writer_ = std::move(writer);
  const auto look = [name = source_.name](auto& transcript) -> Result<Extent> {
    Extent extent;
    TRY(extent.path, transcripts::read_path(transcript));
    TRY(extent.changes, transcripts::read_changes(transcript, name));
    if (!extent.path.empty()) {
      TRY(extent.leaf, checksum_of(transcript, extent.path.back().last));
    }
    return extent;
  };
  CO_TRY(Extent extent, co_await read_source(api_, source_, look));
  path_ = std::move(extent.path);
  changes_ = std::move(extent.changes);
  leaf_ = extent.leaf;
  entries_ = path_.empty() ? 0 : path_.back().last + 1;  // the leaf is the last entry
  CO_TRY(co_await each_step());
  co_await on_disk(api_, [this] {
    put_in_order();
    return true;
  });
  if (writer_->wants_count()) {
    stage_ = Stage::count;
    begin_pass();
    CO_TRY(co_await each_step());
  }
  CO_TRY(text_, co_await on_disk(api_, [this] { return writer_->begin(); }));
  passes_ = writer_->passes();
  stage_ = Stage::passes;
  begin_pass();
  co_return Result<void>{};
}

asio::awaitable<Result<std::string>> DocumentExport::next() {
  while (!passes_.empty() && text_.empty()) {
    CO_TRY(auto more, co_await step());
    if (more) {
      text_ = std::move(*more);
      continue;
    }
    const bool is_first = std::exchange(in_first_pass_, false);
    passes_.erase(passes_.begin());
    begin_pass();
    text_ = co_await on_disk(api_, [this, is_first] {
      std::string text = is_first ? writer_->middle() : "";
      if (passes_.empty()) text += writer_->end();
      return text;
    });
  }
  if (is_json_) json::escape_line_ends(text_);
  co_return std::exchange(text_, {});
}

asio::awaitable<Result<void>> DocumentExport::each_step() {
  for (;;) {
    CO_TRY(const auto more, co_await step());
    if (!more) co_return Result<void>{};
  }
}

bool DocumentExport::takes_all() const {
  return stage_ == Stage::survey || (stage_ == Stage::passes && passes_.front() == formats::Pass::all);
}

void DocumentExport::begin_pass() { span_ = within_ = 0; }

std::vector<transcripts::SeqSpan> DocumentExport::rest() const {
  std::vector<transcripts::SeqSpan> spans;
  if (takes_all()) {
    if (within_ < entries_) spans.push_back({within_, entries_ - 1});
    return spans;
  }
  for (std::size_t at = span_; at < shown_.size() && spans.size() < step_spans; ++at)
    spans.push_back({shown_[at].first + (at == span_ ? within_ : 0), shown_[at].last});
  return spans;
}

void DocumentExport::skip(std::size_t entries) {
  within_ += entries;
  if (takes_all()) return;
  for (; span_ < shown_.size(); ++span_) {
    const std::uint64_t size = shown_[span_].last - shown_[span_].first + 1;
    if (within_ < size) return;
    within_ -= size;
  }
}

void DocumentExport::note_mark(const formats::StoredEntry& entry) {
  if (!entry.on_path) return;
  const formats::ReadEntry read(entry.line);
  if (read.type != "message" && read.type != "custom") return;
  auto mark = context::mark_of({.seq = entry.seq,
                                .id = transcripts::entry_id(read.line, entry.seq),
                                .type = read.type,
                                .body = std::string(read.body)});
  if (mark) marks_.push_back(*std::move(mark));
}

void DocumentExport::put_in_order() {
  order_ = context::order_of(marks_, source_.order);
  marks_ = {};
  inputs_ = {order_.words.begin(), order_.words.end()};
  std::vector<context::Order::Stretch> path;
  for (const auto& [first, last] : path_) path.push_back({first, last});
  for (const auto& [first, last] : context::in_order(path, order_)) shown_.push_back({first, last});
}

bool DocumentExport::on_path(std::uint64_t seq) const {
  const auto span = std::ranges::lower_bound(path_, seq, {}, &transcripts::SeqSpan::last);
  return span != path_.end() && span->first <= seq;
}

asio::awaitable<Result<std::optional<std::string>>> DocumentExport::step() {
  const auto spans = rest();
  if (spans.empty()) co_return std::nullopt;
  const bool history = stage_ == Stage::passes && takes_all();
  const auto read = [spans, history, name = source_.name, leaf = path_.back().last,
                     sum = leaf_](auto& transcript) -> Result<std::vector<transcripts::StoredLine>> {
    TRY(const std::uint32_t present, checksum_of(transcript, leaf));
    if (present != sum) return fail(Code::session_reset, "the transcript was replaced while it was exported");
    std::vector<transcripts::StoredLine> lines;
    std::size_t bytes = 0;
    TRY(transcript.each(spans, [&](std::uint64_t seq, std::string_view line) {
      lines.push_back({.seq = seq, .line = std::string(line)});
      bytes += line.size();
      return bytes < step_bytes;
    }));
    if (!history) return lines;
    TRY(const auto changes, transcripts::read_changes(transcript, name, lines));
    for (transcripts::StoredLine& line : lines)
      if (auto changed = transcripts::changed_line(line.line, line.seq, changes)) line.line = *std::move(changed);
    return lines;
  };
  CO_TRY(const auto lines, co_await read_source(api_, source_, read));
  if (lines.empty()) co_return fail(Code::session_reset, "the transcript became shorter while it was exported");
  skip(lines.size());
  co_return co_await on_disk(api_, [this, &lines] { return take(lines); });
}

std::string DocumentExport::take(const std::vector<transcripts::StoredLine>& lines) {
  std::string out;
  for (const auto& [seq, stored] : lines) {
    std::string held;
    if (with_media_) held = shown_media(api_, stored, policy::MediaAs::inlined).json;
    const std::string_view line = with_media_ ? held : stored;
    formats::StoredEntry entry{.seq = seq, .line = line, .on_path = on_path(seq)};
    if (!changes_.empty()) {
      const std::string id = transcripts::entry_id(line, seq);
      transcripts::add_retold(changes_, seq, id, line);
      entry.change = changes_.of(seq, id);
    }
    if (stage_ == Stage::survey) {
      note_mark(entry);
      writer_->survey(entry);
    } else if (stage_ == Stage::count) {
      writer_->count(entry);
    } else if (!takes_all()) {
      const auto out_of_it = [seq = entry.seq](const context::Order::Stretch& left) { return left.last < seq; };
      const auto blocked = std::ranges::partition_point(order_.left_out, out_of_it);
      entry.is_blocked = blocked != order_.left_out.end() && blocked->first <= entry.seq;
      entry.is_input = !inputs_.empty() && inputs_.contains(transcripts::entry_id(line, entry.seq));
      writer_->message(out, entry);
    } else {
      writer_->history(out, entry);
    }
  }
  return out;
}

}  // namespace sessiond::api
