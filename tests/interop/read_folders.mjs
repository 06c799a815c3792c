// What Hugging Face's own JavaScript library reads of model folders: node read_folders.mjs HUB FOLDER... prints one JSON object.
// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const [hub, ...folders] = process.argv.slice(2);
const { parseSafetensorsMetadata } = await import(pathToFileURL(hub));

// Answers the library's requests as the hub would, from a folder.
function fetchFrom(folder) {
  return async (url, options) => {
    const file = join(folder, basename(decodeURIComponent(new URL(url).pathname)));
    if (!existsSync(file)) {
      return new Response("", { status: 404, headers: { "X-Error-Code": "EntryNotFound" } });
    }
    const bytes = readFileSync(file);
    const range = new Headers(options?.headers).get("Range");
    if (!range) {
      return new Response(bytes, { headers: { ETag: "local" } });
    }
    const [first, last] = range.replace("bytes=", "").split("-").map(Number);
    const part = bytes.subarray(first, last + 1);
    const place = `bytes ${first}-${first + part.length - 1}/${bytes.length}`;
    return new Response(part, { status: 206, headers: { ETag: "local", "Content-Range": place } });
  };
}

function tensorsOf(header, file) {
  const entries = Object.entries(header).filter(([name]) => name !== "__metadata__");
  return entries.map(([name, tensor]) => [name, { dtype: tensor.dtype, shape: tensor.shape, file }]);
}

async function read(folder) {
  const found = await parseSafetensorsMetadata({ repo: "local/folder", fetch: fetchFrom(folder), computeParametersCount: true });
  const headers = found.sharded ? found.headers : { [found.filepaths[0]]: found.header };
  return {
    sharded: found.sharded,
    index: found.index ?? null,
    metadata: Object.values(headers).map((header) => header.__metadata__),
    tensors: Object.fromEntries(Object.entries(headers).flatMap(([file, header]) => tensorsOf(header, file))),
    parameterCount: found.parameterCount,
    parameterTotal: found.parameterTotal,
  };
}

const results = {};
for (const folder of folders) {
  results[folder] = await read(folder);
}
console.log(JSON.stringify(results));
