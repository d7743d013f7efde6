#!/usr/bin/env bash
# Finds flaky tests: runs the tests of packages many times, with -race, in random order, on 1, 2
# and 8 processors in turn, while other processes keep every core busy.
#
#   hack/flakes.sh [-n RUNS] [-b BUSY] [PACKAGE...] [-- TESTFLAG...]
#
#   -n RUNS     how often each package is run, a third of it on each number of processors;
#               default 100
#   -b BUSY     how many processes keep the cores busy; default one per core; 0 on a machine that
#               is already busy
#   PACKAGE     as for go list; default ./... . Packages without tests are skipped
#   TESTFLAG    for the test binaries, such as -test.short or -test.run=W14
#
#   make flakes PKG=./reflector RUNS=20
#   hack/flakes.sh -n 20 ./store ./informer -- -test.short
#
# Each package is built once. The packages take turns, so that an interrupted run covers all of
# them. Each failure is printed immediately, with the command that reproduces its order; a table
# follows at the end. The exit status is 1 if there was a failure.
set -u -o pipefail

go=${GO:-go}
runs=100
busy=$(getconf _NPROCESSORS_ONLN)
while getopts 'n:b:' option; do
	case $option in
	n) runs=$OPTARG ;;
	b) busy=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
wanted=() flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	wanted+=("$1")
	shift
done
[ $# -gt 0 ] && shift && flags=("$@")
[ ${#wanted[@]} -eq 0 ] && wanted=(./...)
case $runs in
'' | *[!0-9]* | 0)
	echo "flakes: -n is $runs; it must be a number above 0" >&2
	exit 2
	;;
esac

case $busy in
'' | *[!0-9]*)
	echo "flakes: -b is $busy; it must be a number" >&2
	exit 2
	;;
esac

work=$(mktemp -d) || exit 1
names=() dirs=() passed=() failed=() seconds=() spinners=()
running=
interrupted=

# finish stops all child processes and prints the table. Every exit goes through it.
finish() {
	local status=$? i all=0
	trap - EXIT INT TERM
	[ -n "$running" ] && kill "$running" 2>/dev/null
	[ ${#spinners[@]} -gt 0 ] && kill "${spinners[@]}" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$work"
	if [ ${#names[@]} -gt 0 ]; then
		printf '\n%-50s %6s %6s %9s\n' package runs failed s/run
		for i in "${!names[@]}"; do
			local n=$((passed[i] + failed[i]))
			all=$((all + failed[i]))
			printf '%-50s %6d %6d %9s\n' "${names[i]}" "$n" "${failed[i]}" "$([ "$n" -gt 0 ] && echo $((seconds[i] / n)) || echo -)"
		done
	fi
	[ "$all" -gt 0 ] && exit 1
	[ -n "$interrupted" ] && exit 130
	exit "$status"
}
trap finish EXIT
trap 'interrupted=1; exit 130' INT TERM

# Build before starting the spinners, which would slow it down.
listed=$("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "${wanted[@]}") || exit 2
while read -r package dir; do
	[ -n "$package" ] || continue
	printf '==> go test -race -c %s\n' "$package"
	CGO_ENABLED=1 "$go" test -race -c -o "$work/${#names[@]}.test" "$package" || exit 2
	names+=("$package") dirs+=("$dir") passed+=(0) failed+=(0) seconds+=(0)
done <<<"$listed"

# A spinner exits when this script has ended.
spin() {
	local i
	while kill -0 $$ 2>/dev/null; do
		for ((i = 0; i < 200000; i++)); do :; done
	done
}
for ((i = busy; i > 0; i--)); do
	spin &
	spinners+=($!)
done

processors=(1 2 8)
for ((run = 1; run <= runs; run++)); do
	cpu=${processors[run % ${#processors[@]}]}
	for i in "${!names[@]}"; do
		began=$SECONDS
		(cd "${dirs[i]}" && GORACE=atexit_sleep_ms=0 exec "$work/$i.test" -test.shuffle=on -test.count=1 -test.timeout=30m "-test.cpu=$cpu" ${flags[@]+"${flags[@]}"}) >"$work/out" 2>&1 &
		running=$!
		if wait "$running"; then
			passed[i]=$((passed[i] + 1))
		else
			failed[i]=$((failed[i] + 1))
			seed=$(sed -n 's/^-test.shuffle //p' "$work/out" | head -n 1)
			printf '\nFAILED: %s, run %d; reproduce with: go test -race -shuffle=%s -cpu=%d %s\n' "${names[i]}" "$run" "$seed" "$cpu" "${names[i]}"
			cat "$work/out"
		fi
		running=
		seconds[i]=$((seconds[i] + SECONDS - began))
	done
	printf '==> run %d of %d\n' "$run" "$runs"
done
