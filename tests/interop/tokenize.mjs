// The ids that Hugging Face's own JavaScript tokenizer gives texts, and what the ids decode to.
// SPDX-License-Identifier: Apache-2.0
//
// node tokenize.mjs TOKENIZERS tokenizer.json: reads a JSON list of texts, prints {"ids": [...], "decoded": [...]}, without BOS.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, file] = process.argv.slice(2);
const { Tokenizer } = await import(pathToFileURL(library));
const tokenizer = new Tokenizer(JSON.parse(readFileSync(file, "utf8")), {});
const texts = JSON.parse(readFileSync(0, "utf8"));
const ids = texts.map((text) => tokenizer.encode(text, { add_special_tokens: false }).ids);
const decoded = ids.map((row) => tokenizer.decode(row, { skip_special_tokens: false, clean_up_tokenization_spaces: false }));
console.log(JSON.stringify({ ids, decoded }));
