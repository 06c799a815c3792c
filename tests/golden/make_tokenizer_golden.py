#!/usr/bin/env python3
"""Golden files of tokenizers: make_tokenizer_golden.py FOLDER NAME OUT.json

FOLDER holds a published tokenizer.json, and tokenizer_config.json for its special pieces. The judges are Hugging Face's
`tokenizers` and `transformers`, and `sentencepiece` where the vocabulary is one of its kind (Llama 2, Mistral): Debian's packages
python3-tokenizers, python3-transformers and python3-sentencepiece.

OUT.json holds difficult texts with the ids and texts that the full vocabulary gives, and a vocabulary cut down to the pieces and
merges that these texts can reach. The script ends in an error unless the small vocabulary gives the same as the full one.
With --full IDS.jsonl it writes instead, for each text, what the judges say with the full vocabulary, for a comparison by hand.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer

SPACE = "\u2581"
SPECIALS = ["<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|think|>",
            "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|im_start|>",
            "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "[INST]", "[/INST]", "<|reserved_special_token_7|>"]
SENTENCES = [
    "Hello world", "Hello, world! How are you today?", "The quick brown fox jumps over the lazy dog.", "I'm sure you'll say it's theirs.",
    "We'VE HE'LL they'Re I'D 'S 'tis o'clock", "don't can't won't shan't y'all'd've", "'\u017f 'L\u029f \u2019s \u2019ll", "Größe, naïve façade, Ångström",
    "3.14159265358979", "1234567890", "1,234,567.89", "2024-01-31T23:59:59Z", "0xDEADBEEF 1e-10 +5", "½ ¾ ² ³ ⅷ ٣٤٥ १२३ 五六",
    "привет, мир; как дела?", "Ελληνικά γράμματα", "שלום עולם", "مرحبا بالعالم، كيف الحال؟", "السَّلَامُ عَلَيْكُم", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "東京の人は東京に住む。", "你好，世界！今天天气怎么样？", "안녕하세요 세계", "カタカナ ﾊﾝｶｸ ひらがな", "Tiếng Việt có dấu", "Zażółć gęślą jaźń", "ﬁne ﬂow ﬀ",
    "😀😁😂 🤣", "👨‍👩‍👧‍👦 family", "👍🏽 👩🏿‍🚀 🏳️‍🌈", "🇩🇪🇫🇷 flags", "e\u0301 a\u0308 n\u0303 o\u0302\u0323 \u1e0b\u0323", "q\u0323\u0307 q\u0307\u0323 Z\u0351\u036b\u0343", "\u212b \u2126 \u212a \uf900 \u2f800",
    "\u1100\u1161\u11a8 \uac00\u11a8 \u3131", "\u0915\u093c \u0958 \u09c7\u09be", "\u0344 \u0340\u0341 \u0f73 \u0f71\u0f72", "K\u0327 \u01b5\u0335 \ufb1d \u05d9\u05b4", "\u30ab\u3099 \u306f\u309a \u3099",
    "for (i = 0; i < 10; ++i) {\n    sum += a[i];\n}\n", "def f(x):\n\treturn x ** 2  # square\n", "if (a && b || !c) { return a->b::c; }", "SELECT * FROM t WHERE a='x';",
    "<html><body>\n<h1>Title</h1></body></html>", "{\"key\": [1, 2, {\"a\": null}]}", "https://example.org/a/b?c=d&e=f#g", "C:\\Users\\name\\file.txt", "name@example.org",
    "CamelCaseWord snake_case_word kebab-case-word SCREAMING_CASE", "aaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab", "!!!???...---===", "«quotes» “double” ‘single’ „low“",
    "a\u00a0b\u2009c\u3000d\u180ee\u200bf\u2028g\u2029h\u0085i", "\ufeffbyte order mark", "soft\u00adhyphen zero\u200dwidth \u200e\u200f marks", "\x00\x01\x02\x1b[0m\x7f", "a\x0bb\x0cc\x1cd\x1fe",
    "\u2581under \u2581\u2581 blocks\u2581", "tab\tseparated\tvalues", "trailing space ", " leading space", "  two leading", "   three   inside   ", "      six", "\n", "\n\n", "\n\n\n", "\r\n\r\n", "\r",
    " \n", "\n ", " \n \n ", "\t\n\t", "line one\nline two\n\n\nline five", "word \n word", "word\n\n  word", "end of line   \n", "\n    indented\n        more", " ", "  ", "   ", "    ", "        ",
    "\t", "\t\t", "\t\t\t\t", " \t ", "a", "A", "é", "字", "😀", "'", "''", "'s", " 's", "-", "--", "/", "//", "\n/", "a/b/\n", "\\n", "\\",
    "\U0001d400\U0001d401 \U00020000\U0002a6d6 \U000e0001", "\U00010348 \U0001f600\U0001f3fb", "\u0378 \ufdd0 \uffff \U0010ffff", "\ue000 private", "ǅ ǈ ⓐ ª º ʰ", "ſt ẞ ß SS", "İ ı I i",
    "mixedПриветworld東京mixed", "5kg 10km/h 3rd 1st", "€100 $5 £3 ¥7 ₹9", "a=b+c*d/e^f%g", "A.B.C. U.S.A. e.g. i.e.", "Mr. O'Neill's dog's bone", "HELLO World hELLO", "ALLCAPSWORDS inTheMiddle OfText",
    "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaftskapitän", "floccinaucinihilipilification", "\u0e33\u0e01\u0e33", "\u0bcd\u0b95\u0bcd", "x\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307",
]


def texts(seed=7):
    """At least 200 texts; those that are no UTF-8 are bytes."""
    out = list(SENTENCES)
    for special in SPECIALS:
        out.append(special)
        out.append(f"before {special} after")
    out += ["a<s>b</s>c", "<s><s> <s>", "<|im_start|>user\nHi<|im_end|>\n", "[INST] Hi [/INST]", "<|im_start", "|im_end|>", "<|im_start|><|im_end|>", "<s", "<|eot_id|> <|eot_id|>x"]
    out += [" " * 17 + "x", "x" + " " * 33, "\n" * 12, "\t" * 9 + "y", "ab" * 40, "very" * 20 + " long", "1" * 30, "é" * 20, "東" * 12, "e\u0301" * 10, "!" * 25, "-" * 60, "= " * 20, "a\u0323\u0307" * 8]
    rng = random.Random(seed)
    for _ in range(24):
        out.append("".join(rng.choice(SENTENCES)[:rng.randint(1, 12)] for _ in range(rng.randint(2, 5))))
    out += [b"a\xffz", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x98", b"\xc0\xafa", b"\xed\xa0\x80", b"ok \x80\x81 ok", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1", b"caf\xe9 cr\xe8me"]
    return list(dict.fromkeys(out))


def as_text(text):
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def as_json(text):
    return {"hex": text.hex()} if isinstance(text, bytes) else {"text": text}


VARIANTS = {
    "llama2": {
        "metaspace first": {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}},
        "metaspace always, split": {"normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}},
    },
    "qwen2_5": {
        "gpt2": {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        "digits": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                                                          {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}},
        "removed": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\w+|[^\\w\\s]+"}, "behavior": "Removed", "invert": True},
            {"type": "Split", "pattern": {"String": "o"}, "behavior": "MergedWithPrevious", "invert": False},
            {"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Contiguous", "invert": False},
            {"type": "Split", "pattern": {"String": "e"}, "behavior": "MergedWithNext", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}},
        "strips": {"added_tokens": {"lstrip": True, "rstrip": True, "single_word": True}},
    },
}


def patched(document, patch):
    document = json.loads(json.dumps(document))
    for key, value in patch.items():
        if key == "added_tokens":
            for token in document[key]:
                token.update(value)
        else:
            document[key] = value
    return document


def byte_alphabet():
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, other = {}, 0x100
    for byte in range(256):
        if byte in visible:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(other)
            other += 1
    return table


def reachable(document, forms):
    """Pieces that are a part of some form of some text, and those that must be there."""
    vocab = document["model"]["vocab"]
    alphabet = byte_alphabet()
    longest = max(map(len, vocab))
    keep = {f"<0x{byte:02X}>" for byte in range(256)} | set(alphabet.values()) | {SPACE}
    for form in forms:
        mapped = [form.replace(" ", SPACE), SPACE + form.replace(" ", SPACE), "".join(alphabet[b] for b in (" " + form).encode())]
        for text in mapped:
            for begin in range(len(text)):
                for end in range(begin + 1, min(len(text), begin + longest) + 1):
                    if text[begin:end] in vocab:
                        keep.add(text[begin:end])
    return {piece for piece in keep if piece in vocab}


def reduced(document, forms):
    """The document with the pieces that the texts can reach, ids without holes, and the old id of each new one."""
    keep = reachable(document, forms)
    added = [token for token in document["added_tokens"]
             if any(token["content"] in form for form in forms) or token["content"] in ("<pad>", "<s>", "</s>", "<bos>", "<eos>", "<unk>")]
    old = {piece: document["model"]["vocab"][piece] for piece in keep}
    for token in added:
        old[token["content"]] = token["id"]
    dropped = {token["content"] for token in document["added_tokens"]} - {token["content"] for token in added}
    old = {piece: i for piece, i in old.items() if piece not in dropped}
    order = sorted(old, key=old.get)
    new = {piece: i for i, piece in enumerate(order)}
    in_model = document["model"]["vocab"].keys()
    small = {key: value for key, value in document.items() if key not in ("truncation", "padding")}
    merges = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in document["model"]["merges"]]
    merges = [[a, b] for a, b in merges if a in new and b in new and a + b in new]
    if isinstance(document["model"]["merges"][0], str):
        merges = [" ".join(merge) for merge in merges]
    small["model"] = dict(document["model"], vocab={piece: i for piece, i in new.items() if piece in in_model}, merges=merges)
    small["added_tokens"] = [dict(token, id=new[token["content"]]) for token in added]
    if (document.get("post_processor") or {}).get("type") == "TemplateProcessing":
        post = json.loads(json.dumps(document["post_processor"]))
        post["special_tokens"] = {name: dict(token, ids=[new[name]]) for name, token in post["special_tokens"].items() if name in new}
        small["post_processor"] = post
    return small, [old[piece] for piece in order]


def judge(document):
    return Tokenizer.from_str(json.dumps(document))


def said(tokenizer, text):
    ids = tokenizer.encode(as_text(text), add_special_tokens=False).ids
    return ids, tokenizer.decode(ids, skip_special_tokens=True)


def sentencepiece_judge(document):
    """The SentencePiece model with this vocabulary; a piece has the score of its first merge, as in the published files."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb

    ranks = {}
    for rank, merge in enumerate(document["model"]["merges"]):
        ranks.setdefault(merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge), rank)
    model = pb.ModelProto()
    for piece, i in sorted(document["model"]["vocab"].items(), key=lambda item: item[1]):
        kind = 2 if piece == "<unk>" else 3 if piece in ("<s>", "</s>") else 6 if piece.startswith("<0x") and len(piece) == 6 else 1
        model.pieces.add(piece=piece, score=-float(ranks.get(piece, len(ranks) * 4 + i)) if kind == 1 else 0.0, type=kind)
    model.trainer_spec.model_type = 2
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(model.pieces)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString()), model.SerializeToString()


def sentencepiece_said(processor, text):
    raw = text if isinstance(text, bytes) else text.encode()
    ids = processor.encode(raw)
    return ids, processor.decode(ids)


def full(document, out):
    tokenizer = judge(document)
    with out.open("w") as file:
        for text in texts():
            ids, decoded = said(tokenizer, text)
            raw = text if isinstance(text, bytes) else text.encode()
            file.write(json.dumps({"hex": raw.hex(), "ids": ids, "text": decoded}) + "\n")


def golden(document, name, out):
    all_texts = texts()
    tokenizer = judge(document)
    forms = {as_text(text) for text in all_texts}
    if tokenizer.normalizer is not None and document["normalizer"]["type"] == "NFC":
        forms |= {tokenizer.normalizer.normalize_str(form) for form in forms}
    small, old_ids = reduced(document, forms)
    small_tokenizer = judge(small)
    cases = []
    for text in all_texts:
        ids, decoded = said(tokenizer, text)
        small_ids, small_decoded = said(small_tokenizer, text)
        if [old_ids[i] for i in small_ids] != ids or small_decoded != decoded:
            sys.exit(f"{name}: the small vocabulary differs on {text!r}")
        cases.append(as_json(text) | {"ids": ids, "decoded": decoded})
    variants = []
    for variant, patch in VARIANTS.get(name, {}).items():
        changed = judge(patched(small, patch))
        answers = []
        for text in all_texts[::3]:
            ids, decoded = said(changed, text)
            answers.append(as_json(text) | {"ids": [old_ids[i] for i in ids], "decoded": decoded})
        variants.append({"name": variant, "patch": patch, "cases": answers})
    pieces = []
    if name in ("llama2", "mistral"):
        processor, _ = sentencepiece_judge(document)
        for text in all_texts:
            ids, decoded = sentencepiece_said(processor, text)
            pieces.append(as_json(text) | {"ids": ids, "decoded": decoded})
    write(out, small, old_ids, {"cases": cases, "sentencepiece": pieces}, variants)


def write(out, small, old_ids, lists, variants):
    def dump(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    with out.open("w", encoding="utf-8") as file:
        file.write('{"tokenizer":' + dump(small) + ',\n"old_ids":' + dump(old_ids))
        for key, cases in lists.items():
            file.write(f',\n"{key}":[\n' + ",\n".join(map(dump, cases)) + "]")
        file.write(',\n"variants":[')
        file.write(",\n".join('{"name":' + dump(v["name"]) + ',"patch":' + dump(v["patch"]) + ',"cases":[\n' +
                              ",\n".join(map(dump, v["cases"])) + "]}" for v in variants))
        file.write("]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("name")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    document = json.loads((options.folder / "tokenizer.json").read_text(encoding="utf-8"))
    if options.full:
        full(document, options.out)
    else:
        golden(document, options.name, options.out)


if __name__ == "__main__":
    main()
