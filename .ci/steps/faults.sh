# shellcheck shell=bash disable=SC2154
# Faults of libfabric's providers. A part of `.ci/run`.

# Writes the result of a fault's program (faults.c) into a file. A fault may depend on chance: it is
# gone after three runs without it.
fault_ends() {
    local folder=$1 program=$2 fault=$3 wanted=$4 into=$5 ended
    for _ in 1 2 3; do
        ended=0
        LD_LIBRARY_PATH=$folder timeout 60 "$program" "$fault" 2>"$into.errors" || ended=$?
        case $ended in 0) ended=there ;; 1) ended=gone ;; 2) ended=no-provider ;; 135 | 139) ended=crash ;; esac
        [ "$ended" = gone ] && [ "$wanted" != gone ] || break
    done
    echo "$ended" >"$into"
}

step_faults() { # Checks in C that every provider fault that the tests skip still exists
    libfabric
    packages libfabric-bin
    local program folder version fault in_1 in_2 wanted ended ends judged=0
    program=$(mktemp)
    ends=$(mktemp -d)
    gcc -O1 -Wall -Wextra -Werror -o "$program" tests/provider_faults/faults.c -lfabric
    # Newer headers have no buffered receives.
    gcc -O1 -Wall -Wextra -Werror -Wno-unused -fsyntax-only -DWITHOUT_BUFFERED_RECV tests/provider_faults/faults.c
    for folder in "" "$(newer_libfabric)"; do
        version=$(LD_LIBRARY_PATH=$folder fi_info --version | awk '$1 == "libfabric:" { split($2, part, "."); print part[1] "." part[2] }')
        # Most programs wait for an event that does not arrive, so eight run at a time.
        while read -r fault in_1 in_2 _; do
            case $version in
                1.17) wanted=$in_1 ;;
                2.5) wanted=$in_2 ;;
                *) skip "libfabric $version: nothing is known of it"; break ;;
            esac
            jobs_below 8
            echo "$wanted" >"$ends/$fault.wanted"
            fault_ends "$folder" "$program" "$fault" "$wanted" "$ends/$fault.ended" &
        done < <(grep -v '^#' cli/faults.txt)
        jobs_below 1
        # State that `sm2` keeps and counts of crashed processes.
        rm -f /dev/shm/fi_sm2_mmaps
        for fault in "$ends"/*.wanted; do
            [ -e "$fault" ] || continue
            fault=$(basename "$fault" .wanted)
            read -r wanted <"$ends/$fault.wanted"
            read -r ended <"$ends/$fault.ended"
            echo "libfabric $version: $fault: $ended"
            [ "$ended" = "$wanted" ] || cat "$ends/$fault.ended.errors"
            [ "$ended" = "$wanted" ] || die "$fault with libfabric $version: $ended, and not $wanted"
            rm "$ends/$fault".*
            judged=$((judged + 1))
        done
    done
    rm -rf "$program" "$ends"
    [ "$judged" -gt 0 ] || skip "no version of which something is known"
}
