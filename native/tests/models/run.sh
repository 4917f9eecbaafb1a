#!/usr/bin/env bash
# Check the model of commits, pins and reclaiming, and that each of its mutants fails. Takes a minute
# or two, and 2 GB.
#
#   apt-get install spin gcc
#   native/tests/models/run.sh              all
#   native/tests/models/run.sh NO_FENCE     this mutant only
set -euo pipefail
MODEL=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/pins.pml
MUTANTS=(NO_FENCE NO_SECOND_LOAD FREED_WHEN_GROWN PINS_READ_FIRST HEAD_BEFORE_PAST PAST_LOADED_FIRST
    PAST_RESTORED SWEPT_TOO_LATE SWEPT_TOO_SOON)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"

# check DEFINES...: print "holds", "fails" or "unknown".
check() {
    spin -a "${@/#/-D}" "$MODEL" >spin.log 2>&1 || { cat spin.log >&2; exit 1; }
    gcc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=6000 -DVECTORSZ=2048 -o pan pan.c
    ./pan -m2000000 -w26 >pan.log 2>&1 || true
    if grep -q 'assertion violated' pan.log; then
        echo fails
    elif grep -q 'errors: 0' pan.log && ! grep -q 'Search not completed' pan.log; then
        echo holds
    else
        echo unknown
    fi
}

states() { sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log; }

failed=0
expect() {
    local want=$1 got
    shift
    got=$(check "$@")
    echo "$got  $* ($(states) states)"
    [ "$got" = "$want" ] || { echo "FAILED: expected that it $want"; failed=1; }
}

if [ $# -gt 0 ]; then
    for mutant in "$@"; do expect fails "$mutant" COMMITS=4; done
    exit $failed
fi
expect holds COMMITS=4 READERS=1 READS=2
expect holds COMMITS=2 READERS=2 READS=1
for mutant in "${MUTANTS[@]}"; do expect fails "$mutant" COMMITS=4; done
exit $failed
