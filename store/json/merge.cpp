// JSON merge patch (RFC 7396). Cuts both texts into their members, nested ones too, in one pass each; then writes one
// text.
#include <algorithm>
#include <deque>
#include <tuple>

#include "store/json/raw_json.hpp"

namespace sessiond::json {
namespace {

// A member of an object, at any depth; arrays are values. Its own members follow it, up to `end`.
struct Node {
  std::string_view name;  // as written
  std::string_view value;
  std::size_t end = 0;
};

class Cutter {
 public:
  explicit Cutter(std::string_view text) : text_(text) {}

  std::vector<Node> run() {
    at_ = text_.find('{');
    if (at_ == std::string_view::npos) return {};
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        member();
      } else if (c == '}') {
        ++at_;
        if (open_.empty()) break;
        close();
      } else {
        ++at_;  // a comma or white space
      }
    }
    return std::move(nodes_);
  }

 private:
  // Reads the member that begins here. Leaves a member object open; reads any other value whole.
  void member() {
    const std::size_t begin = at_;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    const std::string_view name = text_.substr(begin + 1, std::min(at_, text_.size()) - begin - 1);
    ++at_;
    while (at_ < text_.size() && (text_[at_] == ':' || is_space(text_[at_]))) ++at_;
    if (at_ < text_.size() && text_[at_] == '{') {
      open_.push_back({nodes_.size(), at_++});
      nodes_.push_back({.name = name, .value = {}});
      return;
    }
    const std::string_view value = value_at(text_, at_);
    at_ += value.size();
    nodes_.push_back({.name = name, .value = value, .end = nodes_.size() + 1});
  }

  void close() {
    const auto [node, begin] = open_.back();
    open_.pop_back();
    nodes_[node].value = text_.substr(begin, at_ - begin);
    nodes_[node].end = nodes_.size();
  }

  struct Open {
    std::size_t node;
    std::size_t begin;
  };
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Node> nodes_;
  std::vector<Open> open_;
};

// The members of one object among the nodes: [first, last), by name.
class Level {
 public:
  struct One {
    std::string_view name;  // escapes resolved
    std::size_t node;
    bool written = false;
  };

  Level(const std::vector<Node>& nodes, std::size_t first, std::size_t last) {
    for (std::size_t at = first; at < last; at = nodes[at].end) {
      std::string_view name = nodes[at].name;
      if (name.contains('\\')) name = resolved_.emplace_back(unescape(name));
      sorted_.push_back({name, at});
    }
    std::ranges::sort(sorted_,
                      [](const One& a, const One& b) { return std::tie(a.name, a.node) < std::tie(b.name, b.node); });
  }

  // The last of several duplicates.
  One* find(std::string_view name) {
    const auto behind = std::ranges::upper_bound(sorted_, name, {}, &One::name);
    if (behind == sorted_.begin() || std::prev(behind)->name != name) return nullptr;
    return &*std::prev(behind);
  }
  std::vector<One>& all() { return sorted_; }

 private:
  std::deque<std::string> resolved_;
  std::vector<One> sorted_;
};

class Merging {
 public:
  Merging(std::string_view base, std::string_view patch) : base_(Cutter(base).run()), patch_(Cutter(patch).run()) {}

  std::string run() {
    object(0, base_.size(), 0, patch_.size());
    return std::move(out_);
  }

 private:
  void object(std::size_t base_first, std::size_t base_last, std::size_t first, std::size_t last) {
    Level under(base_, base_first, base_last);
    Level over(patch_, first, last);
    out_ += '{';
    const std::size_t empty = out_.size();
    for (std::size_t at = base_first; at < base_last; at = base_[at].end) {
      std::string resolved;
      std::string_view name = base_[at].name;
      if (name.contains('\\')) name = resolved = unescape(name);
      Level::One* const patch = over.find(name);
      if (patch != nullptr && (patch->written || kind(patch_[patch->node].value) == Kind::null)) continue;
      if (out_.size() != empty) out_ += ',';
      out_.append("\"").append(base_[at].name).append("\":");
      if (patch == nullptr) {
        out_ += base_[at].value;
        continue;
      }
      patch->written = true;
      value(&base_[under.find(name)->node], patch->node);
    }
    std::vector<const Level::One*> added;
    for (const Level::One& one : over.all()) {
      if (!one.written && kind(patch_[one.node].value) != Kind::null) added.push_back(&one);
    }
    std::ranges::sort(added, {}, &Level::One::node);
    for (const Level::One* one : added) {
      if (out_.size() != empty) out_ += ',';
      append_quoted(out_, one->name);
      out_ += ':';
      value(nullptr, one->node);
    }
    out_ += '}';
  }

  void value(const Node* under, std::size_t patch) {
    const Node& over = patch_[patch];
    if (kind(over.value) != Kind::object) {
      out_ += over.value;
      return;
    }
    const bool both = under != nullptr && kind(under->value) == Kind::object;
    const std::size_t first = both ? static_cast<std::size_t>(under - base_.data()) + 1 : 0;
    object(first, both ? under->end : 0, patch + 1, over.end);
  }

  std::vector<Node> base_;
  std::vector<Node> patch_;
  std::string out_;
};

}  // namespace

std::string merged(std::string_view base, std::string_view patch) {
  return Merging(kind(base) == Kind::object ? base : std::string_view("{}"), patch).run();
}

}  // namespace sessiond::json
