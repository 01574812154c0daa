#!/usr/bin/env python3
"""Habits of prose in comments and pages, each with a budget: CONTRIBUTING.md has the language.

    .ci/prose.py                   exits with 1 if a rule is over its budget, or the tree has more words than `WORDS`
    .ci/prose.py --lines [PATH...] each finding: file:line: rule: text
    .ci/prose.py --plant           the control: each budget is exceeded

Code in fences is not prose.
"""
import re
import subprocess
import sys
from pathlib import Path

# Of `FILES`.
WORDS = 140_000
# Of each rule: a pattern, findings per 1,000 words, a remedy.
RULES = {
    "what": (r"\bwhat (is|was|are|were|has|have|it|they|an?|the|there|peers?|users?|one|can|does|did|comes?|lies|goes|others|both|we|you)\b",
             0.5, "use the noun: the buffer, the event"),
    "who": (r"\b(who|whoever|whom) (is|has|waits?|polls|takes|opens|closes|enters|posts|drives|wants|asks|does|uses|came|leaves|sleeps|an?|it|they|each)\b",
            0.05, "name the actor: the waiter, the caller"),
    "none": (r"\b(none|nothing|nobody|somebody|anybody|nowhere)\b", 0.8, "state the event, or `does not`"),
    "tell": (r"\b(tells?|told|telling|says?|said|hears?|knows? of)\b", 0.6, "reports, returns, stores, validates"),
    "there": (r"\b(is|are|was|were|be) there\b|\bthere (is|are|was|were) (no|none|nothing|a|one)\b", 0.8, "exists, is open"),
    "whose": (r"\b(whose|of which|of whom|to whom)\b", 0.4, "write two sentences"),
    "pointer": (r"(^|[.] )(The same|As above|As there|As for|As \[`|So is|Nor )", 0.3, "repeat the noun"),
    "ask": (r"\b(asks?|asked|asking) (for|of|it|an?|the|what|whether|again|that|to)\b", 0.3, "requires, requests"),
    "over": (r"\b(is|are|was|were|be) over\b", 0.1, "completed, has ended"),
    "semicolon": (r";", 3.0, "write two sentences"),
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, (pattern, _, _) in RULES.items()}
# The first word of a documentation comment, in percent.
FIRST = re.compile(r"(What|Whether|How|As|Of|Who|Whose|By|That|With|For|None|The same|Where|Which|If|To)\b")
FIRST_BUDGET = 2.0
# Of comments, without tables and links.
COLUMNS = 100
FILES = ["*.md", "src/*.rs", "loom-core/src/*.rs", "loom-alloc/src/*.rs", "layers/*.rs", "transports/*.rs", "cli/*.rs", "examples/*.rs"]
TESTS = ["transports/tcp/src/proxy/*.rs", "transports/tcp/src/strangers/*.rs", "transports/tcp/src/tls/tests/*.rs", "tests/*.rs", "tests/*.md", "loom-core/tests/it/*.rs", "loom-alloc/tests/*.rs", "benches/*.rs", "fuzz/src/*.rs"]


def prose(path):
    """Lines of prose: number, text, `True` for the first line of a documentation comment, `True` for a comment that is too long."""
    rust, fence, doc = path.suffix == ".rs", False, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text, first = line.strip(), False
        if rust:
            comment = re.match(r"(///|//!|//)(?!/)\s?(.*)", text)
            if not comment:
                fence = doc = False
                continue
            text = comment[2].strip()
        if text.startswith("```"):
            fence = not fence
        elif not fence and not text.startswith("|---"):
            if rust:
                first = comment[1] == "///" and not doc
                doc = comment[1] == "///"
            is_long = rust and len(line) > COLUMNS and not re.match(r"\||.*\]\(http|\[", text)
            yield number, text, first, is_long


def main():
    lines = "--lines" in sys.argv
    named = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    files = ["git", "ls-files", "--"]
    limited, tests, paths = [
        subprocess.run(files + patterns, capture_output=True, text=True, check=True).stdout.split()
        for patterns in (FILES, TESTS, named or FILES + TESTS)
    ]
    limited = set(map(Path, limited)) - set(map(Path, tests))
    words = comments = words_of_tests = 0
    found = dict.fromkeys([*RULES, "first", "columns"], 0)
    for path in map(Path, paths):
        if path.suffix not in (".rs", ".md"):
            continue
        for number, text, first, is_long in prose(path):
            plain = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)
            if path in limited:
                words += len(plain.split())
            else:
                words_of_tests += len(plain.split())
            comments += first
            matches = {name: len(pattern.findall(plain)) for name, pattern in PATTERNS.items()}
            matches["first"] = int(first and FIRST.match(text) is not None)
            matches["columns"] = int(is_long)
            for name, count in matches.items():
                found[name] += count
                if count and lines:
                    print(f"{path}:{number}: {name}: {text}")
    if lines:
        return 0
    if "--plant" in sys.argv:
        found = {name: count + words + words_of_tests for name, count in found.items()}
    print(f"{len(paths)} files, {words} words of at most {WORDS}, {words_of_tests} of tests, {comments} documentation comments")
    failed = len(paths) < 300 or words > WORDS
    for name, count in found.items():
        default = (None, FIRST_BUDGET, "begin with a noun or `Returns`") if name == "first" else (None, 0.0, "wrap it")
        _, budget, remedy = RULES.get(name, default)
        rate = 100 * count / max(comments, 1) if name == "first" else 1000 * count / max(words + words_of_tests, 1)
        is_over = rate > budget
        failed |= is_over
        print(f"{name:10} {rate:6.2f} of at most {budget:5.2f}{f'  over its budget: {remedy}' if is_over else ''}")
    return failed


sys.exit(main())
