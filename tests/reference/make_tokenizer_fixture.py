"""Makes tests/data/text/tokenizer_cases.hpp: small tokenizers as Hugging Face's tokenizers trains and stores them, and
the ids that it gives for texts.

    pip install tokenizers==0.23.3
    python3 tests/reference/make_tokenizer_fixture.py
"""

import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).parents[1] / "data/text/tokenizer_cases.hpp"

SENTENCES = [
    "The river runs past the old mill, and the miller's daughter counts the boats.",
    "She'll say that they're late; we've heard it 12 times in 2024, and I'm sure you'd agree.",
    "Im Frühling blühen die Kirschbäume über dem Fluß, und die Brücke ist für Fußgänger.",
    "La rivière coule près du vieux moulin où l'on compte 365 bateaux par année.",
    "int main(void) { return count_boats(12345, \"mill\") ? 0 : 1; }  // the river\n\n",
    "    indented by four spaces\n\tand by a tab\r\nand ended as on Windows\r\n",
    "Река течёт мимо старой мельницы. 川は古い水車小屋のそばを流れる。",
] * 3

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEXTS = [
    "",
    "The miller's daughter'll COUNT'S the boats",
    " a  b   c \n d\n\n\n  e\t\tf \r\n g",
    "1234567 12 1 ½ ٣٤",
    "Frühling über Река 川は😀👩‍👩‍👧 e\u0301 \u00a0 \u2003x\u180ey\u0085z\u3000",
    "'s 't're've'm'll'd 'S 'LL \u017f '\u017fx",
    "<|endoftext|> is a text",
    "!!! ... --- \n?!\r\n\r\n#### 12:34_56",
    "river" * 60 + "    " * 50,
]


def trained(pre_tokenizer, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=456,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def ordinary_ids(tokenizer, text):
    """Without a look for added tokens, as heed encodes."""
    plain = json.loads(tokenizer.to_str())
    plain["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(plain)).encode(text).ids


def quoted(text):
    out = "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode())
    lines = []
    while out:
        end = min(len(out), 96)
        while "\\" in out[max(0, end - 3) : end] and end < len(out):
            end -= 1
        lines.append(out[:end])
        out = out[end:]
    return "\n".join(f'        "{line}"' for line in lines) or '        ""'


def main():
    cases = {
        "gpt2": trained(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "llama3": trained(
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(LLAMA), "isolated"),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            ),
            ignore_merges=True,
        ),
    }
    lines = [
        "// Made by tests/reference/make_tokenizer_fixture.py with the library of Hugging Face: tokenizers, and the ids of texts.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "#include <string>",
        "#include <vector>",
        "",
        "namespace heed::test {",
        "",
        "struct TokenizerCase {",
        "  const char* name;",
        "  std::string json;",
        "  std::vector<std::vector<int32_t>> ids;  // of each of tokenizer_case_texts()",
        "};",
        "",
        "// clang-format off",
        "inline std::vector<std::string> tokenizer_case_texts() {",
        "  return {",
        *[quoted(text) + "," for text in TEXTS],
        "  };",
        "}",
        "",
        "inline std::vector<TokenizerCase> tokenizer_cases() {",
        "  return {",
    ]
    for name, tokenizer in cases.items():
        compact = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=True, separators=(",", ":"))
        lines += [f'      {{"{name}",', quoted(compact) + ",", "       {"]
        for text in TEXTS:
            lines.append("           {" + ", ".join(map(str, ordinary_ids(tokenizer, text))) + "},")
        lines += ["       }},"]
    lines += ["  };", "}", "// clang-format on", "", "}  // namespace heed::test", ""]
    OUT.write_text("\n".join(lines))


main()
