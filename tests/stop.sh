#!/bin/sh
# Ctrl-C for a program, so many seconds after it has said GO on a line of its own, however long it takes to
# come there:
#   sh tests/stop.sh SECONDS command...
# Prints what it said but for that line; its exit status. What does not end is killed after two minutes.
seconds=$1
shift
out=$(mktemp)
timeout --foreground -s KILL 120 env --default-signal=INT "$@" >"$out" 2>&1 &
p=$!
while ! grep -qx GO "$out" && kill -0 $p 2>/dev/null; do sleep 0.02; done
sleep "$seconds"
kill -INT $p
wait $p
status=$?
sed '/^GO$/d' "$out"
rm "$out"
exit $status
