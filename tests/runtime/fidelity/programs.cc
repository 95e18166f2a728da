#include "programs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <absl/strings/str_format.h>
#include <unistd.h>

namespace brink::fidelity {
namespace {

// Lines of words of unequal frequency, as in prose; the same at every run.
void WriteText(const std::string& path, size_t bytes) {
  std::mt19937 random(7);
  std::ofstream out(path);
  size_t written = 0;
  while (written < bytes) {
    std::string line;
    for (uint32_t words = 3 + random() % 12; words > 0; --words) {
      uint32_t rank = random() % 1000 * (random() % 1000) / 1000;
      line += absl::StrFormat("w%x%s ", rank * 2654435761u % 65536, random() % 9 ? "" : ",");
    }
    line += absl::StrFormat("%d\n", random() % 100'000);
    out << line;
    written += line.size();
  }
}

void WriteC(const std::string& path, int functions) {
  std::ofstream out(path);
  out << "#include <stdlib.h>\n#include <string.h>\nstruct s { int a; double d; struct s *next; };\n";
  for (int i = 0; i < functions; ++i) {
    out << absl::StrFormat(
        "int f%d(struct s *p, int n) {\n  int sum = %d;\n  for (int i = 0; i < n; ++i) {\n    switch ((i * %d) %% 7) {\n"
        "      case 0: sum += p->a; break;\n      case 1: sum ^= (int)p->d; break;\n      case 3: if (p->next) p = p->next; break;\n"
        "      default: sum -= strlen((char *)p) > %d ? i : sum >> 3;\n    }\n  }\n  return sum;\n}\n",
        i, i, i * 3 + 1, i % 50);
  }
}

void WriteFile(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

constexpr std::string_view kPython = R"(
import json, re, random, collections
random.seed(3)
rows = [{"id": i, "name": "n%d" % (i * 7 % 1001), "tags": [str(j) for j in range(i % 5)]} for i in range(3000)]
pattern = re.compile(r"n(\d+)[13579]\b")
for round in range(1000):
    text = json.dumps(rows)
    back = json.loads(text)
    counts = collections.Counter(m.group(1) for m in pattern.finditer(text))
    back.sort(key=lambda r: (r["name"], -r["id"]))
    total = sum(len(r["tags"]) * r["id"] for r in back) ^ hash(tuple(sorted(counts)))
)";

constexpr std::string_view kPythonThreads = R"(
import threading
def work(n):
    table = {}
    for i in range(3000000):
        key = str(i * n % 1009)
        table[key] = table.get(key, 0) + len(key)
threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
for t in threads: t.start()
for t in threads: t.join()
)";

constexpr std::string_view kPerl = R"(
my %count; my @list;
for my $round (1 .. 1000) {
  open(my $in, '<', $ARGV[0]) or die;
  while (my $line = <$in>) { $count{lc $1} += length $line while $line =~ /\b(w[0-9a-f]+)/g; last if $. > 3000; }
  @list = sort { $count{$a} <=> $count{$b} || $a cmp $b } keys %count;
}
)";

constexpr std::string_view kNode = R"(
function tree(n) { return n ? {l: tree(n - 1), r: tree(n - 1), v: n} : null; }
function sum(t) { return t ? sum(t.l) + sum(t.r) + t.v : 0; }
let words = {}, total = 0;
for (let round = 0; round < 2000; ++round) {
  total += sum(tree(12));
  for (let i = 0; i < 20000; ++i) { const k = 'k' + (i * 31 % 977); words[k] = (words[k] || 0) + k.length; }
  total += JSON.stringify(words).replace(/k(\d)/g, '$1').length;
}
)";

constexpr std::string_view kSql = R"(
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into t select i, 'row' || (i * 37 % 1001), i * 0.5 from n;
create index tb on t(b);
select count(*) from t x join t y on x.b = y.b where x.a < 4000 and y.a % 3 = 1;
select b, sum(c), group_concat(a) from t group by b order by 2 desc limit 5;
select count(*) from t where b like '%9_' and a in (select a * 3 from t where c < 5000);
)";

// The compiler proper that `gcc` would start; it may be here without gcc.
std::string FindCc1() {
  std::error_code ignored;
  for (const auto& machine : std::filesystem::directory_iterator("/usr/lib/gcc", ignored)) {
    for (const auto& version : std::filesystem::directory_iterator(machine.path(), ignored)) {
      if (::access((version.path() / "cc1").c_str(), X_OK) == 0) return version.path() / "cc1";
    }
  }
  FILE* pipe = ::popen("gcc -print-prog-name=cc1 2>/dev/null", "r");
  if (!pipe) return "";
  char path[4096];
  size_t n = ::fread(path, 1, sizeof path - 1, pipe);
  ::pclose(pipe);
  while (n > 0 && path[n - 1] == '\n') --n;
  return std::string(path, n);
}

std::string FindInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  // The system's own first: a wrapper script would be judged in its place.
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/local/bin/"}) {
    if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "";
}

}  // namespace

std::vector<Program> MakePrograms(const std::string& folder, const std::string& throwing, std::vector<std::string>* missing) {
  std::string text = folder + "/text", c = folder + "/code.c", python = folder + "/a.py", threads = folder + "/threads.py";
  std::string perl = folder + "/a.pl", node = folder + "/a.js", sql = folder + "/a.sql";
  // A guest's CPU is slower by an order of magnitude.
  const bool emulated = std::getenv("BRINK_EMULATED") != nullptr;
  WriteText(text, (emulated ? 1 : 8) << 20);
  WriteC(c, emulated ? 150 : 600);
  WriteFile(python, kPython);
  WriteFile(threads, kPythonThreads);
  WriteFile(perl, kPerl);
  WriteFile(node, kNode);
  WriteFile(sql, kSql);
  const std::string awk = "{ for (i = 1; i <= NF; ++i) n[$i] += length($i) } END { for (k in n) if (n[k] > m) m = n[k]; print m }";
  std::vector<Program> wanted = {
      {"python3", {"python3", python}},
      {"perl", {"perl", perl, text}},
      {"gzip", {"gzip", "-9", "-c", text}},
      {"xz", {"xz", "-T1", "-6", "-c", text}},
      {"bzip2", {"bzip2", "-c", text}},
      {"sort", {"sort", "--parallel=1", text}},
      {"cc1", {FindCc1(), "-O2", "-quiet", c, "-o", "/dev/null"}},
      {"awk", {"awk", awk, text}},
      {"sed", {"sed", "-E", "s/(w[0-9a-f]+), (w[0-9a-f]+)/\\2 \\1/g; /9$/d", text}},
      {"openssl", {"openssl", "genrsa", "4096"}},
      {"sqlite3", {"sqlite3", ":memory:"}, true, sql},
      {"exceptions", {throwing}},
      {"busybox", {"busybox", "awk", awk, text}},
      {"node", {"node", node}, false},
      {"xz-threads", {"xz", "-T2", "--block-size=200000", "-c", text}, false},
      {"sort-threads", {"sort", "--parallel=2", "-S", "64M", text}, false},
      {"python3-threads", {"python3", threads}, false},
  };
  std::vector<Program> out;
  for (Program& program : wanted) {
    program.argv[0] = FindInPath(program.argv[0]);
    if (program.argv[0].empty()) missing->push_back(program.name);
    else out.push_back(program);
  }
  return out;
}

}  // namespace brink::fidelity
