// Teaches FTS5 the grams of grams.hpp, as its tokenizer "grams". What FTS5 is asked for is one gram, taken as it
// stands.
#pragma once

struct sqlite3;

namespace sessiond::search {

// Adds the tokenizer to a connection, and returns SQLite's result code.
int add_tokenizer(sqlite3* database);

}  // namespace sessiond::search
