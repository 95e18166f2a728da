// Code that runtimes made, in recordings of the walk source: node and Java as they are installed, on the host and in a container
// of its own (pid and mount namespace), while the process lives.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using nlohmann::json;
using testing_support::BrinkBinary;
using testing_support::TempDir;

constexpr char kNodeProgram[] = R"(
function hotLoop(a) { let s = 0; for (let i = 0; i < a.length; i++) { if (a[i] & 1) s += a[i]; else s ^= i; } return s; }
const a = new Int32Array(10000);
for (let i = 0; i < a.length; i++) a[i] = Math.imul(i, 2654435761);
const end = Date.now() + 90000;
let t = 0;
let n = 0;
while (Date.now() < end) {
  t += hotLoop(a);
  // New code every now and then: node writes its dump in blocks, and the last one would stay in its memory for ever.
  if (++n % 100 == 0) t += new Function("x", "let s = x; for (let i = 0; i < 9; i++) s += i * " + n + "; return s;")(n);
}
console.log(t);
)";

constexpr char kJavaProgram[] = R"(
public class Hot {
  static int hotLoop(int[] a) { int s = 0; for (int i = 0; i < a.length; i++) { if ((a[i] & 1) != 0) s += a[i]; else s ^= i; } return s; }
  public static void main(String[] x) {
    int[] a = new int[10000];
    for (int i = 0; i < a.length; i++) a[i] = i * 40503;
    long end = System.currentTimeMillis() + 90000, t = 0;
    while (System.currentTimeMillis() < end) t += hotLoop(a);
    System.out.println(t);
  }
}
)";

// Records $pid again and again until WANTED names JIT code, at most about a minute; then ends it. $map is run before a report.
constexpr char kWatch[] = R"(
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  sleep 1
  eval "$map" > /dev/null 2>&1
  "$brink" record -q -F 500 --walk-share 2 -p $pid --duration 2s -o "$folder/jit.data" > /dev/null 2>&1
  "$brink" report -i "$folder/jit.data" -t functions --json > "$folder/report.json" 2> /dev/null
  if grep -q "\"origin\":\"jit\"" "$folder/report.json" && grep -q "$wanted" "$folder/report.json"; then break; fi
done
rm -f /tmp/perf-$pid.map
kill -9 $pid
cat "$folder/report.json"
)";

class JitTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS("source.walk"); }
  bool Have(const char* program) { return testing_support::Run({"sh", "-c", std::string("command -v ") + program}).status == 0; }
  // Rows of the functions table whose names come from the JIT.
  std::vector<json> Watch(const std::string& start, const std::string& map, const std::string& wanted) {
    auto result = testing_support::Run({"sh", "-c", start + "\nmap='" + map + "'\nwanted='" + wanted + "'\nfolder='" + dir_.path() + "'\nbrink='" + BrinkBinary() + "'\n" + kWatch},
                      {.timeout = std::chrono::seconds(110)});
    std::vector<json> rows;
    for (std::string_view line : Split(result.out, '\n')) {
      if (line.empty()) continue;
      json row = json::parse(line, nullptr, false);
      if (!row.is_discarded() && row.contains("origin") && row["origin"] == "jit") rows.push_back(row);
    }
    EXPECT_FALSE(rows.empty()) << result.out.substr(0, 2000) << result.err;
    return rows;
  }
  bool Names(const std::vector<json>& rows, const std::string& text) {
    for (const json& row : rows) {
      if (row["function"].get<std::string>().find(text) != std::string::npos) return true;
    }
    return false;
  }
  TempDir dir_;
};

TEST_F(JitTest, NodeByItsPerfMap) {
  if (!Have("node")) GTEST_SKIP() << "needs node";
  std::ofstream(dir_.File("hot.js")) << kNodeProgram;
  // In the folder of the test: node leaves a log where it runs.
  auto rows = Watch("cd " + dir_.path() + "\nnode --perf-basic-prof hot.js > /dev/null &\npid=$!", "", "hot.js");
  EXPECT_TRUE(Names(rows, "hot.js"));
}

TEST_F(JitTest, NodeByItsJitdump) {
  if (!Have("node")) GTEST_SKIP() << "needs node";
  std::ofstream(dir_.File("hot.js")) << kNodeProgram;
  auto rows = Watch("cd " + dir_.path() + "\nnode --perf-prof --no-turbo-inlining --always-sparkplug hot.js > /dev/null &\npid=$!", "", "hot.js");
  EXPECT_TRUE(Names(rows, "hot.js"));
  // The dump holds the code, too: it can be read after the process is gone.
  auto code = testing_support::RunBrink({"annotate", "-i", dir_.File("jit.data"), "hotLoop"});
  EXPECT_EQ(code.status, 0) << code.err;
  EXPECT_THAT(code.out, testing::ContainsRegex("taken [0-9.]+%"));
}

// The map is in the container's /tmp, under the pid that node has in there.
TEST_F(JitTest, NodeInAContainerByTheMapInThere) {
  if (!Have("node") || !Have("unshare")) GTEST_SKIP() << "needs node and unshare";
  if (testing_support::Run({"unshare", "--pid", "--fork", "--mount", "true"}).status != 0) GTEST_SKIP() << "needs the right to make namespaces";
  std::ofstream(dir_.File("hot.js")) << kNodeProgram;
  std::filesystem::create_directory(dir_.File("tmp"));
  const std::string start = "cd " + dir_.path() + "\nunshare --pid --fork --mount sh -c 'mount --bind " + dir_.File("tmp") + " /tmp; exec node --perf-basic-prof -' < " + dir_.File("hot.js") +
                            " > /dev/null 2>&1 &\nouter=$!\nfor i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; pid=$(pgrep -P $outer | head -1); [ -n \"$pid\" ] && break; done";
  auto rows = Watch(start, "", "JS:");
  EXPECT_TRUE(std::filesystem::exists(dir_.File("tmp/perf-1.map"))) << "node is number 1 in there";
  EXPECT_TRUE(Names(rows, "JS:"));
}

TEST_F(JitTest, JavaByTheMapThatItWritesWhenAsked) {
  if (!Have("java") || !Have("javac") || !Have("jcmd")) GTEST_SKIP() << "needs java, javac and jcmd";
  std::ofstream(dir_.File("Hot.java")) << kJavaProgram;
  if (testing_support::Run({"javac", "-d", dir_.path(), dir_.File("Hot.java")}).status != 0) GTEST_SKIP() << "needs javac";
  // Compiler.perfmap is of Java 17 and later.
  auto rows = Watch("java -cp " + dir_.path() + " Hot > /dev/null &\npid=$!", "jcmd $pid Compiler.perfmap", "Hot");
  EXPECT_TRUE(Names(rows, "Hot."));
}

}  // namespace
}  // namespace brink
