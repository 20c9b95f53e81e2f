// Builds the dashboard: node build.mjs --out DIR. Bundles src/, names each file by its content, compresses it, and
// writes a dashboard.cpp into DIR, which puts the bytes into the binary. CMake calls this; nothing that it writes is committed.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const here = path.dirname(fileURLToPath(import.meta.url));
const TYPES = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const BUDGET = 200 * 1024; // of all files together, as brotli

export const options = {
  absWorkingDir: here,
  bundle: true,
  write: false,
  minify: true,
  target: ['chrome110', 'firefox115', 'safari16.4'],
  format: 'esm',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  loader: { '.svg': 'text' },
  logLevel: 'warning',
  alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' },
};

const hashOf = bytes => createHash('sha256').update(bytes).digest('hex').slice(0, 12);
const named = (stem, extension, bytes) => `${stem}-${hashOf(bytes)}${extension}`;

// [{name, bytes}]; the first one is the page. `more` are further options of esbuild, for development.
export async function bundle(more = {}) {
  const one = async (entry, extra = {}) =>
    (await build({ ...options, ...more, entryPoints: [entry], outfile: 'out', ...extra })).outputFiles[0].contents;
  const worker = await one('src/live/worker.ts', { format: 'iife' });
  const workerName = named('worker', '.js', worker);
  const script = await one('src/main.tsx', { define: { WORKER_URL: JSON.stringify('/assets/' + workerName) } });
  const style = await one('src/styles/main.css', { outfile: 'out.css' });
  const icon = await readFile(path.join(here, 'src/icon.svg'));
  const names = {
    script: named('app', '.js', script),
    style: named('app', '.css', style),
    icon: named('icon', '.svg', icon),
  };
  let page = await readFile(path.join(here, 'src/index.html'), 'utf8');
  for (const [key, name] of Object.entries(names)) page = page.replaceAll(`{{${key}}}`, '/assets/' + name);
  return [
    { name: '', bytes: Buffer.from(page) },
    { name: names.script, bytes: script },
    { name: workerName, bytes: worker },
    { name: names.style, bytes: style },
    { name: names.icon, bytes: icon },
  ];
}

export const typeOf = name => TYPES[path.extname(name || '.html') || '.html'];

async function main(out) {
  const files = await bundle();
  const folder = path.join(out, 'files');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  let arrays = '',
    table = '',
    total = 0;
  for (const [n, { name, bytes }] of files.entries()) {
    const hash = hashOf(bytes);
    const brotli = brotliCompressSync(bytes, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
    });
    const forms = { identity: bytes, gzip: gzipSync(bytes, { level: 9 }), brotli };
    total += brotli.length;
    for (const [form, content] of Object.entries(forms)) {
      const file = path.join(folder, `${hash}.${form}`); // named by content, so that ccache sees a change
      await writeFile(file, content);
      arrays += `constexpr unsigned char ${form}_${n}[] = {\n#embed ${JSON.stringify(file)}\n};\n`;
    }
    table +=
      `      {${JSON.stringify(name)}, ${JSON.stringify(typeOf(name))}, ${JSON.stringify(`"${hash}"`)},\n` +
      `       text(identity_${n}), text(gzip_${n}), text(brotli_${n})},\n`;
  }
  if (total > BUDGET) throw new Error(`the dashboard has ${total} bytes as brotli, more than ${BUDGET}`);
  await writeFile(
    path.join(out, 'dashboard.cpp'),
    `// Made by web/build.mjs.
#include "daemon/api/assets.hpp"

#pragma GCC diagnostic ignored "-Wc23-extensions"

namespace sessiond::assets {
namespace {
${arrays}
template <std::size_t Size>
std::string_view text(const unsigned char (&bytes)[Size]) {
  return {reinterpret_cast<const char*>(bytes), Size};
}
}  // namespace

std::span<const WebFile> web_files() {
  static const WebFile files[] = {
${table}  };
  return files;
}

}  // namespace sessiond::assets
`,
  );
  console.log(`dashboard: ${files.length} files, ${total} bytes as brotli`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const out = process.argv[process.argv.indexOf('--out') + 1];
  if (!process.argv.includes('--out') || !out) throw new Error('node build.mjs --out DIR');
  await main(path.resolve(out));
}
