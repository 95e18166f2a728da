#!/bin/sh
# In an arm64 guest: brink says what it can do there, and records a foreign program by walk (BRINK_SMOKE_SOURCES: other sources).
set -eu
brink=$BRINK_BINARY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "arm64_smoke: $*" >&2
  exit 1
}

uname -m | grep -q aarch64 || fail "not an arm64 guest"
"$brink" doctor > "$work/doctor" || fail "doctor: status $?"
cat "$work/doctor"
for source in walk hop step; do
  grep -q "yes source.$source " "$work/doctor" || fail "doctor does not offer $source"
done
grep -q "BRBE needs a CPU" "$work/doctor" || fail "doctor does not say what branch records need"

dd if=/dev/urandom of="$work/noise" bs=1024 count=2048 2> /dev/null
# A stack is not empty, and its branches are there.
for source in ${BRINK_SMOKE_SOURCES:-walk}; do
  "$brink" record --source "$source" -F 97 -o "$work/$source.data" -- gzip -9 -c "$work/noise" > /dev/null 2> "$work/err" || fail "record --source $source: $(cat "$work/err")"
  "$brink" script -i "$work/$source.data" -F comm,ip,brstack > "$work/script" || fail "script of $source"
  stacks=$(grep -c 'gzip.*0x[0-9a-f]*/0x' "$work/script") || true
  echo "$source: $(wc -l < "$work/script") samples, $stacks with branches"
  [ "$stacks" -ge 5 ] || fail "$source: only $stacks stacks: $(head -3 "$work/script")"
  "$brink" report -i "$work/$source.data" > "$work/report" || fail "report of $source"
  grep -q '%' "$work/report" || fail "report of $source is empty"
done
echo "arm64_smoke: fine"
