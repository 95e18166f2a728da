#!/usr/bin/python3
"""How far walks get and what a step costs, in sampled runs of real programs: `brink record --source walk` on each, with
one build or with several in turn. Prints the median of the runs of each figure.

usage: run.py [--brink BUILD[,BUILD...]] [--rate HZ] [--repeat N] [--record OPTIONS] [--programs LIST] [--scale X] [--c FILE] [--json FILE]

--c: what cc1 compiles instead of 500 small functions, for instance SQLite's amalgamation: a compilation of seconds is all
warm-up.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from report_numbers import numbers  # noqa: E402

PYTHON = """
import json, re, random, collections
random.seed(3)
rows = [{"id": i, "name": "n%d" % (i * 7 % 1001), "tags": [str(j) for j in range(i % 5)]} for i in range(3000)]
pattern = re.compile(r"n(\\d+)[13579]\\b")
for turn in range(@N@):
    text = json.dumps(rows)
    back = json.loads(text)
    counts = collections.Counter(m.group(1) for m in pattern.finditer(text))
    back.sort(key=lambda r: (r["name"], -r["id"]))
    total = sum(len(r["tags"]) * r["id"] for r in back) ^ hash(tuple(sorted(counts)))
"""
PERL = """
my %count; my @list;
for my $turn (1 .. @N@) {
  open(my $in, '<', $ARGV[0]) or die;
  while (my $line = <$in>) { $count{lc $1} += length $line while $line =~ /\\b(w[0-9a-f]+)/g; last if $. > 3000; }
  @list = sort { $count{$a} <=> $count{$b} || $a cmp $b } keys %count;
}
"""
NODE = """
function tree(n) { return n ? {l: tree(n - 1), r: tree(n - 1), v: n} : null; }
function sum(t) { return t ? sum(t.l) + sum(t.r) + t.v : 0; }
let words = {}, total = 0;
for (let turn = 0; turn < @N@; ++turn) {
  total += sum(tree(12));
  for (let i = 0; i < 20000; ++i) { const k = 'k' + (i * 31 % 977); words[k] = (words[k] || 0) + k.length; }
  total += JSON.stringify(words).replace(/k(\\d)/g, '$1').length;
}
"""
SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
  insert into t select i, 'row' || (i * 37 % 1001), i * 0.5 from n;
create index tb on t(b);
select count(*) from t x join t y on x.b = y.b where x.a < @N@ and y.a % 3 = 1;
select b, sum(c), group_concat(a) from t group by b order by 2 desc limit 5;
select count(*) from t where b like '%9_' and a in (select a * 3 from t where c < 5000);
"""
# Name -> (command, work for some two seconds).
PROGRAMS = {
    "python3": (["/usr/bin/python3", "@PY@"], 600),
    "gzip": (["gzip", "-9", "-c", "@TEXT@"], 1),
    "xz": (["xz", "-T1", "-2", "-c", "@TEXT@"], 1),
    "bzip2": (["bzip2", "-c", "@TEXT@"], 1),
    "cc1": (["@CC1@", "-imultiarch", "x86_64-linux-gnu", "-O2", "-quiet", "@C@", "-o", "/dev/null"], 1),
    "perl": (["/usr/bin/perl", "@PL@", "@TEXT@"], 250),
    "sort": (["env", "LC_ALL=C.utf8", "/usr/bin/sort", "--parallel=1", "-S", "200M", "@TEXT@"], 1),
    "node": (["/usr/bin/node", "@JS@"], 1200),
    "sqlite3": (["sh", "-c", "exec sqlite3 :memory: < @SQL@"], 60000),
    "awk": (["awk", "{ for (i = 1; i <= NF; ++i) n[$i] += length($i) } END { for (k in n) if (n[k] > m) m = n[k]; print m }", "@TEXT@"], 1),
    "openssl": (["openssl", "speed", "-seconds", "2", "sha256"], 1),
}


def inputs(folder, scale):
    """Files from a fixed generator: text of words of unequal frequency, C code of many functions, scripts."""
    names = {}

    def write(key, name, text):
        names[key] = os.path.join(folder, name)
        with open(names[key], "w", encoding="ascii") as file:
            file.write(text)

    seed, lines = 7, []
    for _ in range(int(500000 * scale)):
        words = []
        for _ in range(3 + seed % 12):
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            rank = (seed >> 8) % 1000 * ((seed >> 17) % 1000) // 1000
            words.append(f"w{rank * 2654435761 % 65536:x}")
        lines.append(" ".join(words) + f" {seed % 100000}")
    write("@TEXT@", "text", "\n".join(lines) + "\n")
    code = ["#include <stdlib.h>\n#include <string.h>\nstruct s { int a; double d; struct s *next; };"]
    for i in range(int(500 * scale)):
        code.append(
            f"int f{i}(struct s *p, int n) {{\n  int sum = {i};\n  for (int i = 0; i < n; ++i) {{\n    switch ((i * {i * 3 + 1}) % 7) {{\n"
            "      case 0: sum += p->a; break;\n      case 1: sum ^= (int)p->d; break;\n      case 3: if (p->next) p = p->next; break;\n"
            f"      default: sum -= strlen((char *)p) > {i % 50} ? i : sum >> 3;\n    }}\n  }}\n  return sum;\n}}")
    write("@C@", "code.c", "\n".join(code) + "\n")
    for key, name, text, program in (("@PY@", "a.py", PYTHON, "python3"), ("@PL@", "a.pl", PERL, "perl"), ("@JS@", "a.js", NODE, "node"),
                                     ("@SQL@", "a.sql", SQL, "sqlite3")):
        write(key, name, text.replace("@N@", str(max(1, int(PROGRAMS[program][1] * scale)))))
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=False)
    names["@CC1@"] = found.stdout.strip() or "cc1"
    return names


def record(brink, args, command, folder):
    report = os.path.join(folder, "report.json")
    done = subprocess.run([brink, "record", "--source", "walk", *shlex.split(args.record), "-F", args.rate, f"--json={report}", "-o",
                           os.path.join(folder, "b.data"), "--", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: status {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}")
    with open(report, encoding="utf-8") as file:
        return {key: value for key, value in numbers(json.load(file)).items() if key.startswith("walk_")}


def middle(pairs):
    """The value that half of the weight lies below."""
    pairs, seen = sorted(pairs), 0
    for value, weight in pairs:
        seen += weight
        if 2 * seen >= sum(weight for _, weight in pairs):
            return value
    return 0


def summary(rows, name):
    """Over all programs: each counted once, and each by its full stacks."""
    rows = [(row, row.get("walk_stop_full", 0)) for row in rows]
    texts = [f"{what}: {middle([(row.get('walk_step_ns', 0), weight(row, full)) for row, full in rows]):.1f} ns a step, full stack "
             f"{middle([(row.get('walk_full_median_ns', 0), weight(row, full)) for row, full in rows]) / 1000:.1f} us"
             for what, weight in (("median of the programs", lambda row, full: 1), ("of all full stacks", lambda row, full: full))]
    depth = sum(row.get("walk_mean_depth", 0) * row.get("walk_stacks", 0) for row, _ in rows) / max(1, sum(row.get("walk_stacks", 0) for row, _ in rows))
    return f"all{name}: {texts[0]}; {texts[1]} (by its program's median); mean depth {depth:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brink", default="build/brink")
    parser.add_argument("--rate", default="1000")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--record", default="")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--c")
    parser.add_argument("--json")
    args = parser.parse_args()
    builds, table = args.brink.split(","), {}
    with tempfile.TemporaryDirectory() as folder:
        names = inputs(folder, args.scale)
        if args.c:
            names["@C@"] = args.c
        for program in args.programs.split(","):
            command = PROGRAMS[program][0]
            for key, value in names.items():
                command = [word.replace(key, value) for word in command]
            runs = {build: [] for build in builds}
            for turn in range(args.repeat):
                for build in builds if turn % 2 == 0 else builds[::-1]:
                    runs[build].append(record(build, args, command, folder))
            for build in builds:
                keys = sorted(set().union(*runs[build]))
                row = {key: statistics.median(run.get(key, 0) for run in runs[build]) for key in keys}
                table.setdefault(program, {})[build] = row
                stops = {k[10:]: v for k, v in row.items() if k.startswith("walk_stop_") and k != "walk_stop_full"}
                samples = sum(v for k, v in row.items() if k.startswith("walk_stop_")) or 1
                ends = ", ".join(f"{k} {100 * v / samples:.1f}" for k, v in sorted(stops.items(), key=lambda s: -s[1]) if v)
                name = f" [{builds.index(build)}]" if len(builds) > 1 else ""
                print(f"{program + name:14} {samples:6.0f} samples {100 * row.get('walk_full_share', 0):5.1f} % full, depth "
                      f"{row.get('walk_mean_depth', 0):5.1f}, {row.get('walk_step_ns', 0):6.1f} ns a step, full stack "
                      f"{row.get('walk_full_median_ns', 0) / 1000:5.1f} us; {ends}", flush=True)
    for build in builds if len(table) > 1 else []:
        print(summary([rows[build] for rows in table.values()], f" [{builds.index(build)}]" if len(builds) > 1 else ""))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
