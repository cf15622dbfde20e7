"""Unit misuse does not compile. Each wrong line comes with a right one, so that a snippet which fails for another reason (a
renamed type, a missing header) fails the test instead of passing it."""
import argparse
import os
import re
import subprocess

PRELUDE = """
#include "units/quantity.h"
#include "units/time.h"
#include "model/instance.h"
using namespace wattle;
void in_seconds(Span seconds);
void set_power(Watts power);
void lock(MegaHertz clock);
void route_to(InstanceId instance);
void wake_at(Instant when);
"""
BODY = """
#line 1 "case {number}"
void case_{number}([[maybe_unused]] Watts w, [[maybe_unused]] Joules j, [[maybe_unused]] Instant t, [[maybe_unused]] Span d,
  [[maybe_unused]] MegaHertz f, [[maybe_unused]] RequestId r, [[maybe_unused]] InstanceId i, [[maybe_unused]] GramsCo2 g,
  [[maybe_unused]] GramsPerKwh gi, [[maybe_unused]] Milliwatts mw, [[maybe_unused]] Picojoules pj) {{
  {line}
}}
"""

# what: (must not compile, must compile)
CASES = {
    "watts plus joules": ("auto x = w + j; (void)x;", "auto x = w + w; (void)x;"),
    "milliseconds as seconds": ("in_seconds(5000);", "in_seconds(Span::ms(5000));"),
    "a plain double as seconds": ("in_seconds(5.0);", "in_seconds(Span::from_seconds(5.0));"),
    "megahertz where watts are wanted": ("set_power(f);", "set_power(w);"),
    "a bare number where watts are wanted": ("set_power(400.0);", "set_power(Watts(400.0));"),
    "watts where megahertz are wanted": ("lock(w);", "lock(f);"),
    "instant plus instant": ("auto x = t + t; (void)x;", "auto x = t + d; (void)x;"),
    "a span where an instant is wanted": ("wake_at(d);", "wake_at(t + d);"),
    "an instant where a span is wanted": ("in_seconds(t);", "in_seconds(t - t);"),
    "a request id for an instance id": ("route_to(r);", "route_to(i);"),
    "comparing unlike ids": ("bool x = r == i; (void)x;", "bool x = r == r; (void)x;"),
    "adding ids": ("auto x = i + i; (void)x;", "auto x = i.value() + i.value(); (void)x;"),
    "intensity where grams are wanted": ("g += gi;", "g += g;"),
    "milliwatts where watts are wanted": ("set_power(mw);", "set_power(to_watts(mw));"),
    "watts where milliwatts are wanted": ("auto x = energy_over(w, d); (void)x;",
                                          "auto x = energy_over(to_milliwatts(w), d); (void)x;"),
    "picojoules plus joules": ("auto x = pj + j; (void)x;", "auto x = pj + pj; (void)x;"),
    "energy from power and an instant": ("auto x = energy_over(mw, t); (void)x;",
                                         "auto x = energy_over(mw, t - t); (void)x;"),
    "a clock swapped with an id": ("InstanceView v; v.clock_commanded = i; (void)v;",
                                   "InstanceView v; v.clock_commanded = f; (void)v;"),
}


def errors_in(compiler: str, src: str, lines: list[str]) -> dict[int, str]:
    """The first error of each line that the compiler refuses, by the line's number; all lines are compiled as one file."""
    unit = PRELUDE + "".join(BODY.format(number=n, line=line) for n, line in enumerate(lines))
    run = subprocess.run([compiler, "-std=c++23", "-D_GNU_SOURCE", "-fsyntax-only", "-I", src, "-x", "c++", "-"],
                         input=unit, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    errors: dict[int, str] = {}
    for match in re.finditer(r"^(.*): error: .*", run.stderr, re.M):
        number = re.fullmatch(r"case (\d+):\d+:\d+", match.group(1))
        errors.setdefault(int(number.group(1)) if number else -1, match.group(0))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--src", required=True)
    arguments = parser.parse_args()

    refused = errors_in(arguments.compiler, arguments.src, [wrong for wrong, _ in CASES.values()])
    problems = [f"{what}: `{wrong}` compiles and must not" for n, (what, (wrong, _)) in enumerate(CASES.items()) if n not in refused]
    broken = errors_in(arguments.compiler, arguments.src, [right for _, right in CASES.values()])
    problems += [f"a right form does not compile: {error}" for error in broken.values()]
    print("\n".join(problems) if problems else f"unit misuse: ok ({len(CASES)} mistakes refused, {len(CASES)} right forms accepted)")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
