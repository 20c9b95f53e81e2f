// Writes src/api/schema.d.ts, the types of the HTTP API, from openapi.json.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const source = JSON.parse(await readFile(new URL('openapi.json', import.meta.url), 'utf8'));
await writeFile(new URL('src/api/schema.d.ts', import.meta.url), astToString(await openapiTS(source)));
