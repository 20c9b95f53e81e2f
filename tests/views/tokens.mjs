// Counts tokens: node tokens.mjs FILE, with {"texts": [...]} a line. Prints a number for each line.
import { readFileSync } from "node:fs";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";

const lines = readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean);
// Text that looks like a special token is text like any other.
const count = (text) => countTokens(text, { disallowedSpecial: new Set() });
console.log(JSON.stringify(lines.map((line) => JSON.parse(line).texts.reduce((sum, text) => sum + count(text), 0))));
