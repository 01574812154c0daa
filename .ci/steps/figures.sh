# shellcheck shell=bash disable=SC2154
# Figures: that they are measured, and that they are within the limits of `.ci/limits`. A part of `.ci/run`.

# The program of the package in benches/.
measure() { cargo run --quiet --release --locked --manifest-path benches/Cargo.toml --target-dir target/benches -- "$@"; }

step_harness() { # the benchmarks' statistics, that every set of theirs runs, and that a regression is named
    libfabric
    packages valgrind
    command -v python3 >/dev/null || packages python3
    tested cargo test --locked --release --manifest-path benches/Cargo.toml --target-dir target/benches
    local folder
    folder=$(mktemp -d)
    measure --quick --json "$folder/new.json" all | tee "$folder/log"
    # They are the same each time: the step `instructions` need not count them again.
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

step_report() { # measures everything over both versions of libfabric, and writes reports and figures in docs/dev; not run with the others
    libfabric
    packages valgrind
    local folder library version
    folder=$(mktemp -d)
    for library in "" "$(newer_libfabric)"; do
        LD_LIBRARY_PATH=$library measure --json "$folder/run.json" all
        version=$(sed -n 's/.*"libfabric":"\([^"]*\)".*/\1/p' "$folder/run.json")
        mv "$folder/run.json" "$folder/libfabric-$version.json"
    done
    # Only now: a run that failed leaves the page as it was.
    rm -f docs/dev/performance/*.json
    mv "$folder"/*.json docs/dev/performance
    rmdir "$folder"
    measure page
    measure page --check
}

# Whether each line `NAME LIMIT` of a file has a figure `metric NAME VALUE ...` in a log that is not above it.
within_limits() {
    awk '
        NR == FNR { if ($1 == "metric") value[$2] = $3; next }
        $1 == "#" || !NF { next }
        !($1 in value) { print $1 ": not measured"; failed = 1; next }
        { print $1 ": " value[$1] " of " $2; judged++; if (value[$1] > $2) { print $1 " is above its limit"; failed = 1 } }
        END { exit failed || !judged }' "$1" "$2"
}

# Runs a benchmark, into a log, until its figures are within the limits of a name: three times at most, because machines are shared.
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

step_bench() { # the benchmark runs and prints its figures, of which those that are promised are judged: machines are shared; among all steps every sixth day
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

step_nixl() { # lists of writes by the transfer engine beside NIXL over UCX, where its package can be had; among all steps every sixth day
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

# The benchmark, and what libfabric takes longer than the software transport the other way round.
measured_matching() {
    cargo bench --locked --features libfabric --bench matching |
        awk '{ print } $2 == "tag_match.c_shm_over_soft.16384" { print "metric tag_match.soft_over_c_shm.16384", 1 / $3, "ratio" }'
}

step_matching() { # matching at a depth of 65,536 is judged: instructions, time, and beside libfabric; among all steps every sixth day
    has_its_turn 4 of 6 || { skip "the benchmark of matching: it has its turn on other days"; return 0; }
    libfabric
    packages valgrind
    local log
    log=$(mktemp)
    judged matching "$log" measured_matching
    fails_with "is above its limit" within_limits "$log" <(echo "tag_match.exact.instructions.65536_over_64 0.9")
    rm -f "$log"
}

step_instructions() { # how many instructions an operation takes, which is the same on a busy machine, against limits
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
