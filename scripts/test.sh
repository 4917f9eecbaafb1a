#!/usr/bin/env bash
# Set up and run the tests on a fresh Debian or Ubuntu machine.
#
#   ./scripts/test.sh                  the default stages: ten minutes on two quiet cores, set-up included
#   ./scripts/test.sh all              the default stages and the deeper ones: an hour
#   ./scripts/test.sh turn             the deeper stages whose turn it is, by the number of commits
#   ./scripts/test.sh lint c-asan      these stages only (with what they need)
#   ./scripts/test.sh hostile          a stage that runs only when it is named
#   ./scripts/test.sh --list           the stages and what they do
#   ./scripts/test.sh --keep-going     goes on where a stage has failed
#
# Everything made here lies in .venv-test (environments, wheels, logs) and can be deleted.
# Options of single stages:
#   --pyg-tests DIR, --dgl-tests DIR   checkouts of PyG and DGL, whose own tests the stage peers runs
#   --part I/N                         the I-th of N parts of the stage faults (default: 1/1)
# Environment, besides what common.sh lists:
#   FUZZ_SECONDS   how long each native fuzzer runs (default 5; in the soak 60)
#   SOAK_SECONDS   how long readers and the writer of a live graph work in the soak (default 600)
#   SOAK_KILLS     how often its writer is killed there (default 1000)
#   PYTEST_JOBS    processes per pytest run (default: 2, in the stage python one more than there are cores)
#   PYTEST_ARGS    more arguments for every pytest run
set -uo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BASE=${AETHERGRAPH_TEST_DIR:-$(dirname "$HERE")/.venv-test}
AETHERGRAPH_VENV=${AETHERGRAPH_VENV:-$BASE/main}
# shellcheck source-path=SCRIPTDIR
. "$HERE/common.sh"

# name|what it does. Those of a group run in this order.
DEFAULT=(
    "system|compiler and headers by apt, if missing"
    "environment|virtual environment with torch, torch_geometric and the test tools"
    "build|source archive; a wheel built from it"
    "c-tests|unit tests of the C core; its examples, compiled as users do"
    "lint|ruff, mypy --strict, clang-format, shellcheck"
    "python|Python tests: all but the slow ones, up to two variants of each; the snippets of the pages"
    "smoke|the wheel in a fresh environment with numpy and cffi alone"
)
DEEPER=(
    "clang|clang, its analyzer and its fuzzer by apt, if missing"
    "extras|what few tests need, for the environment: Ray, Lightning, PyTorch Frame"
    "python-whole|all Python tests with all their variants"
    "interpreted|tests of what mypyc compiles and of its users, on the build without mypyc"
    "python-asan|core tests, two variants of each, with the extension under AddressSanitizer (and without mypyc)"
    "docs|the documentation with its reference, built; every public name is in it, every link leads somewhere"
    "tidy|clang-tidy on the C core"
    "c-asan|unit tests of the C core under AddressSanitizer and UndefinedBehaviorSanitizer"
    "c-tsan|C tests that start threads under ThreadSanitizer"
    "c-no-uring|unit tests of reading in a build without liburing"
    "c-fuzz|libFuzzer on the decoders of the C core"
    "wheel|wheel and editable installation in a fresh environment without torch; contents of the archives"
    "install|the package as documented, in fresh environments: bare, [fsspec] and [pyg,cli,plot], with their quickstarts"
    "versions-install|builds on the other CPython versions found (3.10 to 3.13)"
    "versions|core tests, one variant of each, on the oldest and newest of them; the others are imported, and their wheels looked into"
    "dgl-install|[dgl,cli] as documented, with its quickstart, on DGL 2.1, torch 2.2 and numpy 1 (downloads 1 GB once)"
    "dgl|both adapters on DGL 2.1, torch 2.2, torch_geometric 2.5 and numpy 1"
)
# They need what `all` has not (checkouts, hours, a quiet machine): they run when they are named.
NAMED=(
    "benchmarks|every benchmark with --quick (the stage python runs a few of them)"
    "faults|planted faults, one at a time: whether the default stages catch them"
    "peers|PyG's and DGL's own tests over our objects (--pyg-tests DIR, --dgl-tests DIR)"
    "hostile-share|a fifth of hostile"
    "hostile|every bad value for every argument of every public call, interrupted calls, refused threads and memory"
    "soak|a live graph under load, its readers and writer killed; property tests with many more examples, other ones in every run"
    "asan-all|as python-asan, all variants of all core tests, those of remote graphs, features and streams too"
    "site|every page of the documentation in Chromium, 1,400 and 390 pixels wide: nothing is cut"
    "flink|Flink's file sink, killed and going on from its checkpoints, into a live graph (downloads 330 MB once)"
)

# What `turn` runs, one line each: CI runs one behind the default stages, the next with the next commit.
TURNS=(
    "asan|c-asan python-asan"
    "dgl|dgl-install dgl"
    "tsan|c-tsan c-no-uring tidy"
    "versions|versions-install versions"
    "whole|python-whole"
    "fuzz|c-fuzz"
    "install|wheel install docs"
    "interpreted|interpreted"
    "hostile|hostile-share"
)

# Lanes, which run at the same time: their tests wait now and then, for the disk or for each other, and their
# installations for downloads. Stages of a lane take turns, since they need one another or change one environment.
# The first lane of a line, its longest, goes first; the others take what it leaves. A stage waits for what it needs
# of other lanes.
BESIDE=(
    "environment build python smoke / c-tests lint"
    "extras python-whole interpreted python-asan docs / tidy c-asan c-tsan c-no-uring c-fuzz / wheel install versions-install versions / dgl-install dgl"
)

# needs STAGE: the stages without which it cannot run.
needs() {
    case $1 in
    system) ;;
    environment | c-tests | clang) echo system ;;
    build | lint) echo environment ;;
    c-asan | c-tsan | c-no-uring) echo system ;;
    tidy) echo environment clang ;;
    c-fuzz) echo clang ;;
    extras) echo environment ;;
    python-whole | soak) echo build extras ;;
    versions) echo versions-install ;;
    dgl) echo dgl-install ;;
    site) echo docs ;;
    peers) echo build ${DGL_TESTS:+dgl-install} ;;
    faults | python | smoke | interpreted | python-asan | docs | wheel | install | *-install | benchmarks | hostile* | asan-all | flink) echo build ;;
    esac
}

LOGS=$BASE/logs
# shellcheck source-path=SCRIPTDIR
. "$HERE/stages.sh"

# ---- which stages ------------------------------------------------------------

list_stages() {
    local entry
    echo 'By default:'
    for entry in "${DEFAULT[@]}"; do printf '  %-16s %s\n' "${entry%%|*}" "${entry#*|}"; done
    echo 'With all:'
    for entry in "${DEEPER[@]}"; do printf '  %-16s %s\n' "${entry%%|*}" "${entry#*|}"; done
    echo 'Only when named:'
    for entry in "${NAMED[@]}"; do printf '  %-16s %s\n' "${entry%%|*}" "${entry#*|}"; done
}

# names ENTRY...: their stages.
names() { printf '%s\n' "${@%%|*}"; }

# turn_stages: print the stages whose turn it is, and to stderr why.
turn_stages() {
    local commits turn
    commits=$(git -C "$ROOT" rev-list --count HEAD 2>/dev/null) || die "turn: $ROOT is no git checkout, whose commits could be counted"
    turn=${TURNS[commits % ${#TURNS[@]}]}
    note "turn: ${turn%%|*} (${turn#*|}), number $((commits % ${#TURNS[@]} + 1)) of ${#TURNS[@]}, since there are $commits commits" >&2
    echo "${turn#*|}"
}

# is_done STAGE: nothing is to be made again of what it makes.
is_done() {
    case $1 in
    system) has cc && has make && has_header xxhash.h ;;
    environment) [ -e "$BASE/environment.done" ] && [ "$(cat "$BASE/environment.done")" = "$(environment_key)" ] ;;
    clang) has clang-tidy && clang_can_fuzz ;;
    extras) [ -e "$BASE/extras.done" ] ;;
    *) false ;;
    esac
}

# with_needs STAGE...: these stages and what they need and is not there, a line each.
with_needs() {
    local stage need
    for stage; do
        for need in $(needs "$stage"); do
            is_done "$need" || with_needs "$need"
        done
        echo "$stage"
    done
}

# ---- running them ------------------------------------------------------------

# count_tests LOG: "passed failed" summed over pytest's and the C tests' summary lines.
count_tests() {
    sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        /^(=+ )?[0-9]+ (passed|failed|skipped|error|errors|deselected|xfailed)[ ,]/ {
            n = split($0, part, /[ ,]+/)
            for (i = 2; i <= n; i++) {
                if (part[i] == "passed") passed += part[i - 1]
                if (part[i] == "failed" || part[i] ~ /^errors?$/) failed += part[i - 1]
            }
        }
        END { print passed + 0, failed + 0 }'
}

# summary_line STAGE: the last summary line of its pytest run, if it ran.
summary_line() {
    [ -e "$LOGS/$1.log" ] && [[ " ${results[*]} " == *"$1 "* ]] || return 0
    sed 's/\x1b\[[0-9;]*m//g' "$LOGS/$1.log" |
        awk -v name="$1" '/^(=+ )?[0-9]+ (passed|failed|skipped|error).* in / { line = $0 } END { if (line) print "pytest [" name "]: " line }'
}

results=()
total_passed=0
total_failed=0
stages_failed=0

# do_stage NAME: run it, in a subshell of its own; its status, the seconds that it took and those that it kept
# processors busy go into its .done file.
do_stage() {
    local start=$SECONDS rc=0
    # Not in a condition: bash would then ignore `set -e` inside the stage.
    (
        set -euo pipefail
        cd "$ROOT"
        choose_python || true # the system stage installs one
        "stage_${1//-/_}"
    ) 2>&1 </dev/null
    rc=$?
    times >"$LOGS/$1.times" # of this subshell: not in another one
    echo "$rc $((SECONDS - start)) $(processor_seconds "$LOGS/$1.times")" >"$LOGS/$1.done"
}

# processor_seconds FILE: of what `times` printed, those of the processes that have ended (0m1.5s 0m0.5s).
processor_seconds() {
    awk -F '[ms ]+' '{ last = $1 * 60 + $2 + $3 * 60 + $4 } END { printf "%.0f", last }' "$1"
}

run_stage() {
    heading "[$1] $2"
    do_stage "$1" | tee "$LOGS/$1.log"
    end_stage "$1"
}

# run_beside LINE ENTRY...: these stages, in the lanes of that line; each is shown when it has ended.
run_beside() {
    local line=$1 lane entry running=1 shown=' ' niceness=0 pids=()
    shift
    note "at the same time: ${*%%|*}"
    rm -f "$LOGS/stop"
    for entry; do rm -f "$LOGS/${entry%%|*}.done"; done
    set -m # lanes are process groups, which end with this script
    while IFS= read -rd / lane; do
        run_lane "$lane" " ${*%%|*} " "$niceness" &
        pids+=("$!")
        niceness=3 # twice the time for a process of the first
    done <<<"$line/"
    set +m
    trap 'kill -- "${pids[@]/#/-}" 2>/dev/null; exit 130' INT TERM
    while [ -n "$running" ]; do
        sleep 1
        running=$(jobs -rp) # first: what ends after this is seen below
        for entry; do
            if [ -s "$LOGS/${entry%%|*}.done" ] && [[ $shown != *" ${entry%%|*} "* ]]; then
                heading "[${entry%%|*}] ${entry#*|}"
                cat "$LOGS/${entry%%|*}.log"
                end_stage "${entry%%|*}"
                shown+="${entry%%|*} "
            fi
        done
    done
    trap - INT TERM
}

# run_lane "STAGE..." " WANTED... " NICENESS: those that are wanted, one after the other, until one fails in any lane.
run_lane() {
    local name need
    renice -n "$(($(nice) + $3))" -p "$BASHPID" >/dev/null
    for name in $1; do
        [[ $2 == *" $name "* ]] || continue
        for need in $(needs "$name"); do
            while [[ $2 == *" $need "* ]] && [ ! -s "$LOGS/$need.done" ] && [ ! -e "$LOGS/stop" ]; do sleep 1; done
        done
        [ ! -e "$LOGS/stop" ] || return 0
        (do_stage "$name" >"$LOGS/$name.log") # a shell of its own, whose times are the stage's
        [ -n "$keep_going" ] || [[ $(cat "$LOGS/$name.done") == "0 "* ]] || touch "$LOGS/stop"
    done
}

# end_stage NAME: count what it has done.
end_stage() {
    local name=$1 log=$LOGS/$1.log rc seconds busy passed failed state
    read -r rc seconds busy <"$LOGS/$name.done"
    read -r passed failed < <(count_tests "$log")
    state=ok
    if [ "$rc" != 0 ]; then
        state="FAILED ($rc)"
        stages_failed=$((stages_failed + 1))
        [ "$failed" != 0 ] || failed=1
    elif [ "$passed" = 0 ]; then
        passed=1 # a stage without counts is one check
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    results+=("$(printf '%-16s %-12s %4d s %5d cpu-s  %d passed, %d failed' "$name" "$state" "$seconds" "$busy" "$passed" "$failed")")
}

# line_of ENTRY: the line of BESIDE that the stage is in, else its name.
line_of() {
    local line
    for line in "${BESIDE[@]}"; do
        [[ " $line " != *" ${1%%|*} "* ]] || { echo "$line"; return; }
    done
    echo "${1%%|*}"
}

# closing_line STAGE...: what has been run, and what `all` would have run beside it.
closing_line() {
    local more=() name ran=" $* "
    [[ $ran != *" python-whole "* ]] || ran+="python "
    for name in $(names "${DEEPER[@]}"); do
        [[ $ran == *" $name "* ]] || more+=("$name")
    done
    printf '%s in %d min %02d s: %d tests and checks' \
        "$([ "$stages_failed" = 0 ] && echo Passed || echo "FAILED (stages: $stages_failed)")" \
        $((SECONDS / 60)) $((SECONDS % 60)) "$total_passed"
    if [ ${#more[@]} = 0 ]; then
        printf '; that was all but what runs when it is named (--list).\n'
    else
        printf '. ./scripts/test.sh all adds: %s.\n' "${more[*]}"
    fi
}

main() {
    local keep_going='' wanted=() entry name turn
    while [ $# -gt 0 ]; do
        case $1 in
        --list) list_stages; exit 0 ;;
        --keep-going | -k) keep_going=1 ;;
        --pyg-tests | --dgl-tests | --part)
            [ $# -gt 1 ] || die "$1 needs a value (see --help)"
            case $1 in
            --pyg-tests) PYG_TESTS=$(realpath -e "$2" 2>/dev/null) || die "--pyg-tests: there is no folder $2" ;;
            --dgl-tests) DGL_TESTS=$(realpath -e "$2" 2>/dev/null) || die "--dgl-tests: there is no folder $2" ;;
            --part) [[ $2 =~ ^[0-9]+/[0-9]+$ ]] || die "--part: $2 is no part, such as 1/4"; PART=$2 ;;
            esac
            shift
            ;;
        -h | --help) sed -n '2,/^set -/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'; list_stages; exit 0 ;;
        -*) die "unknown option $1 (see --help)" ;;
        default) mapfile -t -O "${#wanted[@]}" wanted < <(names "${DEFAULT[@]}") ;;
        all)
            # Of the Python tests python-whole has all.
            mapfile -t -O "${#wanted[@]}" wanted < <(names "${DEFAULT[@]}" "${DEEPER[@]}" | grep -vx python)
            ;;
        turn)
            turn=$(turn_stages) || exit 1
            # shellcheck disable=SC2206
            wanted+=($turn)
            ;;
        *)
            names "${DEFAULT[@]}" "${DEEPER[@]}" "${NAMED[@]}" | grep -qxF -- "$1" ||
                die "there is no stage '$1'; the stages: default all turn $(names "${DEFAULT[@]}" "${DEEPER[@]}" "${NAMED[@]}" | tr '\n' ' ')"
            wanted+=("$1")
            ;;
        esac
        shift
    done
    [ ${#wanted[@]} != 0 ] || mapfile -t wanted < <(names "${DEFAULT[@]}")
    [[ " ${wanted[*]} " != *" peers "* ]] || [ -n "${PYG_TESTS:-}${DGL_TESTS:-}" ] ||
        die "peers needs --pyg-tests DIR or --dgl-tests DIR, a checkout of theirs"
    mkdir -p "$LOGS"
    local needed plan=()
    needed=" $(with_needs "${wanted[@]}" | tr '\n' ' ')" || exit 1
    for entry in "${DEFAULT[@]}" "${DEEPER[@]}" "${NAMED[@]}"; do
        [[ $needed != *" ${entry%%|*} "* ]] || plan+=("$entry")
    done

    local i count line
    for ((i = 0; i < ${#plan[@]}; i += count)); do
        line=$(line_of "${plan[i]}")
        count=1
        while [ $((i + count)) -lt ${#plan[@]} ] && [ "$(line_of "${plan[i + count]}")" = "$line" ]; do
            count=$((count + 1))
        done
        if [ "$count" = 1 ]; then
            run_stage "${plan[i]%%|*}" "${plan[i]#*|}"
        else
            run_beside "$line" "${plan[@]:i:count}"
        fi
        if [ "$stages_failed" != 0 ] && [ -z "$keep_going" ]; then
            note "stopping here; --keep-going runs the remaining stages too"
            break
        fi
    done

    heading "Summary (logs in ${LOGS#"$ROOT"/})"
    printf '    %s\n' "${results[@]}"
    summary_line python
    summary_line python-whole
    printf '%d passed, %d failed\n' "$total_passed" "$total_failed"
    mapfile -t plan < <(names "${plan[@]}")
    closing_line "${plan[@]}"
    [ "$stages_failed" = 0 ]
}

main "$@"
