// Loads transcripts as OpenClaw 2026.4.29 does: node openclaw.mjs FILE, with {"file"} a line. Prints for each the messages of
// the context that its session manager makes. Files are copied first: it may rewrite them.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { SessionManager } from "./pi-coding-agent/dist/core/session-manager.js";

const folder = mkdtempSync(join(tmpdir(), "openclaw-"));
const contexts = readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean).map((line) => {
  const { file } = JSON.parse(line);
  const copy = join(folder, basename(file));
  copyFileSync(file, copy);
  return SessionManager.open(copy).buildSessionContext().messages;
});
rmSync(folder, { recursive: true });
process.stdout.write(JSON.stringify(contexts));
