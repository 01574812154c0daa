"""Results of `.ci/mutants`: judged by .ci/mutants.reasons, and counted in docs/dev/mutants.md.

The name of a mutant contains its file, its change with the function, and the changed line, without
the line number. If several places have one name, the reason must apply to each.
"""

import json
import pathlib
import re
import subprocess
import sys

# Folders and files of each name of the page. A file belongs to the first name that matches.
FOLDERS = {
    "engine": ("loom-core/src/engine/",),
    "objects": tuple(
        f"loom-core/src/{name}"
        for name in (
            "av/ counter.rs cq/ deadline.rs domain/ driver/ endpoint/ eq/ info/ mr/ registered.rs storage/handle.rs util/count.rs "
            "vocabulary/remote_region.rs"
        ).split()
    ),
    "static": ("layers/static/src/",),
    "tagged": ("layers/tagged/src/",),
    "lanes": ("loom-core/src/soft/lane/", "loom-core/src/soft/delivery/lane"),
    "soft": ("loom-core/src/soft/",),
    "updates": ("layers/updates/src/",),
    "alloc": ("loom-alloc/src/",),
    "async": ("layers/async/src/",),
    "deferred": ("layers/deferred/src/",),
    "group": ("layers/group/src/",),
}
REASONS = pathlib.Path(".ci/mutants.reasons")
PAGE = pathlib.Path("docs/dev/mutants.md")


def name(mutant, diff):
    change = re.sub(r"^.*?:\d+:\d+: ", "", mutant["name"])
    lines = [line[1:].strip() for line in diff.splitlines()[2:] if line.startswith("-")]
    # A mutant that replaces the whole body is named by its function.
    line = "" if mutant["genre"] == "FnValue" or not lines else lines[0]
    return f"{mutant['file']}: {change}" + (f"\n| {line}" if line else "")


def outcomes(folder, there):
    """Returns name and summary of each mutant of the results that still exists."""
    ended = {}
    # Order of the stages: the tests next to the code, these again for survivors, then all tests.
    stages = ["near", "again", "all"]
    for path in sorted(folder.glob("*/mutants.out/outcomes.json"), key=lambda path: (stages.index(path.parts[-3].split("-")[0]), path)):
        near = path.parts[-3].startswith("near")
        for outcome in json.loads(path.read_text())["outcomes"]:
            if outcome["scenario"] == "Baseline":
                continue
            mutant, summary = outcome["scenario"]["Mutant"], outcome["summary"]
            log = path.parent / outcome["log_path"]
            if summary == "CaughtMutant" and "SIGXCPU" in log.read_text(errors="replace"):
                summary = "Timeout"
            diff = (path.parent / outcome["diff_path"]).read_text()
            if near or mutant["name"] in ended:
                ended[mutant["name"]] = (name(mutant, diff), summary)
    return [outcome for outcome in ended.values() if outcome[0] in there]


def reasons(file=REASONS):
    """Returns the reasons of a file by name. A stanza is the name and, indented, the changed line and the reason."""
    found = {}
    for stanza in re.split(r"\n\s*\n", file.read_text()) if file.exists() else []:
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        head, rest = lines[0], lines[1:]
        if rest and rest[0].startswith("    | "):
            head, rest = f"{head}\n{rest[0].strip()}", rest[1:]
        text = " ".join(line.strip() for line in rest)
        if not text or head in found:
            sys.exit(f"{file}: there is no reason, or a second one:\n{head}")
        found[head] = text
    return found


def all_names():
    """Returns the names of all mutants of the tree."""
    files = [f"--file={place}" if place.endswith(".rs") else f"--file={place}**" for places in FOLDERS.values() for place in places]
    listed = subprocess.run(
        ["cargo", "mutants", "--workspace", "--list", "--json", *files],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    return {name(mutant, mutant["diff"]) for mutant in json.loads(listed)}


def judge(ended, known, there):
    """Prints survivors without a reason, and reasons without a survivor. Returns `True` if all survivors have one."""
    survivors = {key for key, summary in ended if summary == "MissedMutant"}
    caught = {key for key, summary in ended if summary in ("CaughtMutant", "Timeout")}
    for key in known:
        if key not in there:
            print(f"a reason is left over, its mutant is gone: {key}")
        elif key in caught and key not in survivors:
            print(f"a reason is left over, its mutant is caught: {key}")
    open_ones = sorted(survivors - known.keys())
    for key in open_ones:
        print(f"survives, without a reason: {key}")
    return not open_ones


def figures(ended):
    counted = [summary for _, summary in ended]
    viable = len(counted) - counted.count("Unviable")
    late, missed = counted.count("Timeout"), counted.count("MissedMutant")
    return [len(counted), viable, viable - missed, late, missed]


def rows(results, there):
    """Returns the figures by folder and shard: those of the page, replaced by those of the results."""
    found = {}
    if PAGE.exists():
        for row in re.findall(r"^\| (\w+) \| (\d+/\d+) \| (.*) \|$", PAGE.read_text(), re.M):
            found[row[0], row[1]] = [int(cell) for cell in row[2].split(" | ")[:5]]
    for folder in results.iterdir() if results.exists() else []:
        kind, shard = re.fullmatch(r"(\w+)-(\d+-\d+)", folder.name).groups()
        found[kind, shard.replace("-", "/")] = figures(outcomes(folder, there))
    return found


def page(found):
    order = list(FOLDERS)
    lines = [
        "# Mutants",
        "",
        "`.ci/mutants` (cargo-mutants) changes the code in one place at a time, except `Display` and `Debug`, and renews this page. A shard",
        "`K/N` is every Nth mutant, beginning with number K. `.ci/mutants.reasons` has the reason why no test can see a survivor.",
        "",
        "| folder | shard | mutants | viable | caught | of these out of time | survivors |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for key in sorted(found, key=lambda key: (order.index(key[0]), *map(int, key[1].split("/")))):
        lines.append(f"| {' | '.join([*key, *map(str, found[key])])} |")
    PAGE.write_text("\n".join(lines) + "\n")


def main():
    command, results = sys.argv[1], pathlib.Path(sys.argv[2])
    known, there = reasons(), all_names()
    ended = [outcome for folder in sorted(results.iterdir()) for outcome in outcomes(folder, there)]
    if command == "renew":
        page(rows(results, there))
    tried, viable, caught, late, missed = figures(ended)
    print(f"{tried} mutants, {viable} viable, {caught} caught, of these {late} out of time, {missed} survive")
    if not judge(ended, known, there):
        sys.exit(1)


if __name__ == "__main__":
    main()
