# shellcheck shell=bash disable=SC2154
# Figures: their measurement, and their limits in `.ci/limits`. A part of `.ci/run`.

# Runs the program of the package in benches/.
measure() { cargo run --quiet --release --locked --manifest-path benches/Cargo.toml --target-dir target/benches -- "$@"; }

step_harness() { # Checks the benchmarks' statistics, that every set runs, and that a regression is named
    libfabric
    packages valgrind
    command -v python3 >/dev/null || packages python3
    tested cargo test --locked --release --manifest-path benches/Cargo.toml --target-dir target/benches
    local folder
    folder=$(mktemp -d)
    measure --quick --json "$folder/new.json" all | tee "$folder/log"
    # Counts are reproducible, so the step `instructions` reuses them.
    [ -z "$EVERYTHING" ] || grep '^metric .*instructions' "$folder/log" >"$TOOLS/instructions"
    measure compare "$folder/new.json" "$folder/new.json"
    python3 - "$folder" <<'PLANT'
import json, sys
folder = sys.argv[1]
report = json.load(open(folder + "/new.json"))
[tagged] = [metric for metric in report["metrics"] if metric["name"] == "soft.instructions.tagged.64B"]
for figure in ("median", "q1", "q3", "p99"):
    tagged["summary"][figure] *= 0.9
json.dump(report, open(folder + "/old.json", "w"))
PLANT
    fails_with "REGRESSION   soft.instructions.tagged.64B" measure compare "$folder/old.json" "$folder/new.json"
    fails_with "not what the reports give" measure page --check "$folder/new.json"
    rm -r "$folder"
}

step_report() { # Measures everything over both versions of libfabric, and writes reports and figures in docs/dev. By name only
    libfabric
    packages valgrind
    local folder library version
    folder=$(mktemp -d)
    for library in "" "$(newer_libfabric)"; do
        LD_LIBRARY_PATH=$library measure --json "$folder/run.json" all
        version=$(sed -n 's/.*"libfabric":"\([^"]*\)".*/\1/p' "$folder/run.json")
        mv "$folder/run.json" "$folder/libfabric-$version.json"
    done
    # Replaced at the end, so that a failed run does not change the page.
    rm -f docs/dev/performance/*.json
    mv "$folder"/*.json docs/dev/performance
    rmdir "$folder"
    measure page
    measure page --check
}

# Succeeds if each line `NAME LIMIT` of a file has a figure `metric NAME VALUE ...` in a log, and
# the value does not exceed the limit.
within_limits() {
    awk '
        NR == FNR { if ($1 == "metric") value[$2] = $3; next }
        $1 == "#" || !NF { next }
        !($1 in value) { print $1 ": not measured"; failed = 1; next }
        { print $1 ": " value[$1] " of " $2; judged++; if (value[$1] > $2) { print $1 " is above its limit"; failed = 1 } }
        END { exit failed || !judged }' "$1" "$2"
}

# Runs a benchmark, with output into a log, until its figures are within the limits of a name. Runs
# three times at most, because machines are shared.
judged() {
    local limits=.ci/limits/$1 log=$2 attempt
    shift 2
    for attempt in 1 2 3; do
        "$@" 2>&1 | tee "$log"
        if within_limits "$log" "$limits"; then return 0; fi
        [ "$attempt" = 3 ] || echo "once more: another program may have been busy"
    done
    die "slower than what is promised, three times"
}

step_bench() { # Runs the benchmarks, and judges the figures with limits: machines are shared. Among all steps, every sixth day
    has_its_turn 3 of 6 || { skip "judged benchmarks: they have their turn on other days"; return 0; }
    libfabric
    packages valgrind
    local log bench=(cargo bench --locked --features libfabric)
    log=$(mktemp)
    judged over_c "$log" measure --rounds 25 over_c soft arrivals
    [ "$(grep -c '^metric ' "$log")" -ge 100 ] || die "metrics are missing"
    fails_with "is above its limit" within_limits "$log" <(echo "loom_over_c.tcp_rxm.message.64B 0.1")
    judged media "$log" measure --rounds 9 media
    fails_with "is above its limit" within_limits "$log" <(echo "grain_over_copy.soft 0.1")
    judged alloc "$log" "${bench[@]}" --bench alloc
    judged futures "$log" "${bench[@]}" --bench futures
    [ "$(grep -c '^metric window' "$log")" -eq 4 ] || die "windows are missing"
    fails_with "is above its limit" within_limits "$log" <(echo "future_minus_poll.ns 0.1")
    judged group "$log" "${bench[@]}" --bench group --bench teams
    fails_with "is above its limit" within_limits "$log" <(echo "group_over_loop.scatter.64B.instructions 0.5")
    LOOM_MPICH=$(newer_mpich) judged allreduce_over_mpi "$log" "${bench[@]}" --bench allreduce_over_mpi
    fails_with "is above its limit" within_limits "$log" <(echo "allreduce_over_mpi.shm.8B 0.01")
    rm -f "$log"
}

step_nixl() { # Compares lists of writes by the transfer engine with NIXL over UCX, if its package is available. Among all steps, every sixth day
    has_its_turn 3 of 6 || { skip "NIXL: it has its turn on other days"; return 0; }
    libfabric
    local log python
    python=$(nixl_python) || { skip "$python"; return 0; }
    log=$(mktemp)
    LOOM_NIXL=$python measure --quick nixl | tee "$log"
    if grep -q "^nixl: skipped" "$log"; then skip "$(grep "^nixl: skipped" "$log")"; return 0; fi
    LOOM_NIXL=$python judged nixl "$log" measure nixl
    fails_with "is above its limit" within_limits "$log" <(echo "transfer_over_nixl.64B 0.001")
    rm -f "$log"
}

# Runs the benchmark, and adds the inverse ratio: the software transport over libfabric.
measured_matching() {
    cargo bench --locked --features libfabric --bench matching |
        awk '{ print } $2 == "tag_match.c_shm_over_soft.16384" { print "metric tag_match.soft_over_c_shm.16384", 1 / $3, "ratio" }'
}

step_matching() { # Judges matching at a depth of 65,536: instructions, time, and compared with libfabric. Among all steps, every sixth day
    has_its_turn 4 of 6 || { skip "the benchmark of matching: it has its turn on other days"; return 0; }
    libfabric
    packages valgrind
    local log
    log=$(mktemp)
    judged matching "$log" measured_matching
    fails_with "is above its limit" within_limits "$log" <(echo "tag_match.exact.instructions.65536_over_64 0.9")
    rm -f "$log"
}

step_instructions() { # Judges the instructions of operations, which are the same on a busy machine
    libfabric
    packages valgrind
    local figures
    figures=$(mktemp)
    if [ -n "$EVERYTHING" ]; then cp "$TOOLS/instructions" "$figures"; else measure instructions | tee "$figures"; fi
    within_limits "$figures" .ci/limits/instructions || die "slower than it was"
    fails_with "is above its limit" within_limits "$figures" <(echo "soft.instructions.tagged.64B 60")
    fails_with "not measured" within_limits "$figures" <(echo "soft.instructions.nothing 60")
    rm -f "$figures"
}
