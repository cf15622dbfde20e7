#!/usr/bin/env python3
"""Prompts and lengths of answers from AlpacaEval's published outputs, as JSON lines for `wattle forecast length`.

    git clone https://github.com/tatsu-lab/alpaca_eval
    python3 tools/alpaca_eval_lengths.py alpaca_eval/results vicuna-13b gpt4_1106_preview > lengths.jsonl

Each prompt's rows, one for each model (as its tenant), stand together and prompts are shuffled, so that no prompt that is
held out has been learned from. Lengths are in words and signs: the models' tokenizers are not at hand."""
import argparse
import json
import pathlib
import random
import re
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()

    def words(text: str) -> int:
        return len(re.findall(r"\w+|[^\w\s]", text))

    by_prompt: dict[str, list[dict[str, object]]] = {}
    for model in flags.models:
        for row in json.loads((flags.results / model / "model_outputs.json").read_text()):
            prompt, length = row["instruction"], words(row["output"])
            if length > 0:
                by_prompt.setdefault(prompt, []).append(
                    {"prompt": prompt, "tenant": model, "prompt_tokens": words(prompt), "output_tokens": length})
    prompts = sorted(by_prompt)
    random.Random(flags.seed).shuffle(prompts)
    for prompt in prompts:
        for row in by_prompt[prompt]:
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
