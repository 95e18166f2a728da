// The attacks of tests/runtime/cfi/attacks in a guest, where there is branch hardware (what the plugin of tests/vm records)
// and a kernel with BPF LSM.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/features.h"
#include "support/process.h"

namespace brink {

using testing_support::RunBrink;
using Json = nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(800);  // three times below the targets' TIMEOUT; a guest has a fraction of a CPU

struct Watched {
  std::map<std::string, int> status;                          // by attack
  std::map<std::string, std::set<std::string>> before, after; // rules, by attack: before the page became executable, and later
  Json report;
};

class CfiGuest : public testing::Test {
 protected:
  // Each attack is a program of its own name, so that alarms tell them apart.
  Watched Watch(const std::vector<std::string>& names, const std::vector<std::string>& options, const std::vector<std::string>& environment) {
    std::string script;
    for (const std::string& name : names) {
      std::error_code error;
      std::filesystem::create_symlink(BRINK_ATTACK, dir_.File(name), error);
      script += dir_.File(name) + " " + name + "; echo " + name + " $? >>" + dir_.File("status") + "; ";
    }
    std::ofstream(dir_.File("status"), std::ios::trunc);
    std::vector<std::string> words = {"cfi", "run", "-q", "--every", "--min-severity", "low", "--sink", "json:" + dir_.File("alarms"), "--report", dir_.File("report")};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), script + "true"}) words.push_back(word);
    auto run = RunBrink(words, {.stdin_text = "", .timeout = kPatience, .cwd = "", .env = environment});
    EXPECT_EQ(run.status, 0) << run.err;
    Watched watched;
    std::ifstream status(dir_.File("status")), alarms(dir_.File("alarms")), report(dir_.File("report"));
    std::string name;
    for (int value; status >> name >> value;) watched.status[name] = value;
    for (std::string line; std::getline(alarms, line);) {
      const Json alarm = Json::parse(line);
      const std::string point = alarm["hook"]["point"], call = alarm["hook"]["syscall"].is_string() ? alarm["hook"]["syscall"] : "";
      const bool early = point != "syscall_exit" || (call != "mprotect" && call != "mmap");
      auto& rules = (early ? watched.before : watched.after)[alarm["process"]["comm"]];
      for (const auto& id : alarm["policy_ids"]) rules.insert(id.get<std::string>());
    }
    watched.report = Json::parse(report, nullptr, false);
    return watched;
  }
  std::string Words(const std::set<std::string>& rules) const {
    std::string out;
    for (const std::string& rule : rules) out += (out.empty() ? "" : " ") + rule;
    return out.empty() ? "-" : out;
  }
  testing_support::TempDir dir_;
};

}  // namespace brink
