#include "daemon/search/tokenizer.hpp"

#include <sqlite3.h>

#include <new>

#include "daemon/search/grams.hpp"

namespace sessiond::search {
namespace {

// FTS5 gives us functions of SQLite's object, which control flow integrity does not know (config/cfi-ignore.txt).
using Token = int (*)(void*, int flags, const char* token, int size, int begin, int end);

int create(void*, const char**, int, Fts5Tokenizer** out) {
  static char stateless = 0;
  *out = reinterpret_cast<Fts5Tokenizer*>(&stateless);
  return SQLITE_OK;
}

void remove(Fts5Tokenizer*) {}

int tokenize(Fts5Tokenizer*, void* context, int flags, const char* text, int size, Token token) try {
  if (text == nullptr || size <= 0) return SQLITE_OK;
  if ((flags & FTS5_TOKENIZE_QUERY) != 0) return token(context, 0, text, size, 0, size);
  const std::string_view whole(text, static_cast<std::size_t>(size));
  for (const std::string_view gram : grams_of(whole)) {
    const auto begin = static_cast<int>(gram.data() - text);
    const auto length = static_cast<int>(gram.size());
    if (const int code = token(context, 0, gram.data(), length, begin, begin + length); code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
} catch (const std::bad_alloc&) {  // no exception may pass through SQLite
  return SQLITE_NOMEM;
}

}  // namespace

int add_tokenizer(sqlite3* database) {
  fts5_api* api = nullptr;
  sqlite3_stmt* asks = nullptr;
  int code = ::sqlite3_prepare_v2(database, "SELECT fts5(?1)", -1, &asks, nullptr);
  if (code != SQLITE_OK) return code;
  ::sqlite3_bind_pointer(asks, 1, static_cast<void*>(&api), "fts5_api_ptr", nullptr);
  ::sqlite3_step(asks);
  code = ::sqlite3_finalize(asks);
  if (code != SQLITE_OK || api == nullptr) return code != SQLITE_OK ? code : SQLITE_ERROR;
  fts5_tokenizer grams{.xCreate = create, .xDelete = remove, .xTokenize = tokenize};
  return api->xCreateTokenizer(api, "grams", nullptr, &grams, nullptr);
}

}  // namespace sessiond::search
