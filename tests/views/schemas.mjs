// JSON schemas of types.ts, kept beside this file until the types or the packages change.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const here = (name) => new URL(name, import.meta.url).pathname;

export async function schemas() {
  const hash = createHash("sha256");
  for (const file of ["types.ts", "schemas.mjs", "package-lock.json"]) hash.update(readFileSync(here(file)));
  const made = hash.digest("hex");
  try {
    const kept = JSON.parse(readFileSync(here("schemas.json")));
    if (kept.made === made) return kept.schema;
  } catch { /* there are none yet */ }
  const { createGenerator } = await import("ts-json-schema-generator");
  const options = { path: here("types.ts"), type: "*", skipTypeCheck: true, functions: "hide" };
  const schema = createGenerator(options).createSchema();
  writeFileSync(here("schemas.json"), JSON.stringify({ made, schema }));
  return schema;
}
