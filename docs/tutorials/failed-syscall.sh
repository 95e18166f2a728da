#!/usr/bin/env bash
# Tutorial 2: which branch failed my system call?
#
# "Permission denied" says that something in the kernel said no, not what. `brink snap` takes the moment at which the call
# fails: arguments, result, the call chain of the program, and what the kernel did on the way to the error.
#
#   docs/tutorials/failed-syscall.sh [FOLDER]
#
# Needs root (or CAP_BPF, CAP_PERFMON and tracefs).
set -euo pipefail
brink=${BRINK:-brink}
folder=${1:-$(mktemp -d)}
command -v gcc > /dev/null || { echo "needs gcc"; exit 77; }
mkdir -p "$folder" && cd "$folder"

# A program that opens files, one of which is not there.
cat > reader.c << 'C'
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static int read_settings(const char *path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  close(fd);
  return 1;
}
int main(void) {
  int found = read_settings("/etc/passwd");
  for (int i = 0; i < 10; ++i) found += read_settings("/etc/reader/settings.conf");  // it may come yet
  printf("%d settings\n", found);
  return 0;
}
C
gcc -g -O1 -fno-omit-frame-pointer reader.c -o reader

# Every failing openat of this command, at its end: `ret < 0` is decided in the kernel, so nothing else is copied.
"$brink" snap --on syscall:openat --if 'ret < 0' -- ./reader | tee failed.txt

# The path that was asked for and the error. (The C library has no frame pointers, so the chain ends in it; `--on uprobe:PATH:FUNC`
# takes captures in the program itself.)
grep -q '/etc/reader/settings.conf' failed.txt
grep -q ENOENT failed.txt

# What the program made of it: without branch hardware, brink walks on from the end of the call and shows the branches that
# follow. The last conditional one in read_settings is the program's own decision, with its line. (With branch hardware the
# same capture shows the branches that led to the error.)
# That takes a kernel that lets brink work as the call returns.
if "$brink" snap --source walk --on syscall:openat --if 'ret < 0' -- ./reader > followed.txt 2> refused.txt; then
  cat followed.txt
  grep -A3 'read_settings (reader)' followed.txt | grep -q 'cond .*reader.c'
else
  echo "not on this kernel: $(head -1 refused.txt)"
fi

# Which function of the kernel said no, innermost first: where the kernel lets its functions be traced.
if "$brink" snap --errno-path openat --count 1 -- ./reader > decided.txt 2> refused.txt; then
  cat decided.txt
else
  echo "not on this kernel: $(head -1 refused.txt)"
fi

# The same as one JSON object a capture, for scripts (docs/schema/snap.json).
"$brink" snap -q --json --on syscall:openat --if 'ret < 0' -- ./reader > failed.json
echo "captures as text and JSON: $folder/failed.txt, failed.json"
