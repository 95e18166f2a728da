// The plan in words and as JSON.
#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "filter/branch_flags.h"
#include "filter/hardware.h"
#include "filter/names.h"
#include "filter/plan.h"

namespace brink::filter {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t value, int digits = 3) { return absl::StrFormat("0x%0*X", digits, value); }

// One row a register: name, value (or why there is none), remark.
struct Row {
  std::string key;   // in JSON
  std::string name;  // for people
  std::optional<uint64_t> value;
  std::string remark;
};

std::vector<Row> Rows(const Plan& plan) {
  const uint64_t bits = plan.branch_bits;
  std::vector<Row> rows;
  uint64_t intel = IntelLbrSelect(bits), finest = FinestLbrSelect(plan.kinds, bits);
  std::string remark;
  if (!(bits & kBranchCallStack) && finest != intel && !plan.kinds_exact) remark = "the register could hold " + Hex(finest) + ", perf has no flag for it";
  if (bits & (kBranchCall | kBranchIndCall) && !(bits & (kBranchAny | kBranchAnyCall))) {
    uint64_t any_call = IntelLbrSelect((bits & ~uint64_t{kBranchCall | kBranchIndCall}) | kBranchAnyCall);
    remark = "with far branches too (any_call): " + Hex(any_call);
  }
  rows.push_back({"intel_lbr_select", "Intel LBR_SELECT", intel, remark});
  auto nehalem = NehalemLbrSelect(bits);
  rows.push_back({"intel_nehalem_lbr_select", "Intel Nehalem, Westmere", nehalem, nehalem ? "erratum: calls and returns need the jump bits" : "no mapping for call: use any_call"});
  rows.push_back({"arch_lbr_ctl", "arch LBR_CTL", ArchLbrCtl(bits), ""});
  auto amd = AmdLbrSelect(bits);
  rows.push_back({"amd_lbr_select", "AMD LBR_SELECT (Zen 4+)", amd, amd ? "" : "EOPNOTSUPP: transactions, call stack, no_flags and no_cycles are refused"});
  uint64_t brs_extra = bits & ~(kBranchAny | kBranchPrivMask);
  rows.push_back({"amd_brs", "AMD BRS (Zen 3)", std::nullopt, brs_extra || !(bits & kBranchAny) ? "EINVAL: takes ANY only; record ANY, the rest in software" : "ANY, privilege in software"});
  std::string why;
  auto brbe = LinuxBrbe(bits, false, &why);
  auto vhe = LinuxBrbe(bits, true, &why);
  if (brbe && vhe) {
    uint64_t fine = FinestBrbfcr(plan.kinds);
    rows.push_back({"brbfcr_el1", "BRBFCR_EL1", brbe->brbfcr,
                    fine && fine != brbe->brbfcr && !plan.kinds_exact ? "the register could hold " + Hex(fine, 6) + " (brink brbe program)" : ""});
    rows.push_back({"brbcr_el1", "BRBCR_EL1 (kernel at EL1)", brbe->brbcr, "with BRBCR_EL2 = " + Hex(brbe->brbcr_el2_nvhe) + ": CC and MPRED need both"});
    rows.push_back({"brbcr_el2", "BRBCR_EL2 (VHE)", vhe->brbcr, "written under the name BRBCR_EL1"});
    rows.push_back({"brbcr_el12", "BRBCR_EL12 (VHE)", vhe->brbcr_el12, "the EL1 copy, enables cleared"});
  } else {
    rows.push_back({"brbfcr_el1", "BRBFCR_EL1", std::nullopt, "EOPNOTSUPP: " + why});
  }
  rows.push_back({"power", "Power BHRB", std::nullopt, PowerBhrb(bits)});
  return rows;
}

void Section(std::string& out, const char* title, const std::string& text) {
  size_t begin = 0;
  bool first = true;
  while (begin < text.size()) {
    size_t end = std::min(text.find('\n', begin), text.size());
    absl::StrAppendFormat(&out, "%-12s %s\n", first ? title : "", text.substr(begin, end - begin));
    first = false;
    begin = end + 1;
  }
}

std::string Lines(const std::vector<std::string>& lines, const char* none) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\n") + line;
  return out.empty() ? none : out;
}

std::vector<std::string> UserSpace(const Plan& plan) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < plan.bpf.rest.size(); ++i) lines.push_back(ToString(plan.bpf.rest[i]) + "   (" + plan.bpf.reasons[i] + ")");
  return lines;
}

bool BpfEmpty(const Plan& plan) { return !plan.bpf.prog.kinds && !plan.bpf.prog.sample_ops && !plan.bpf.prog.record_ops; }

}  // namespace

std::string ExplainText(const Plan& plan) {
  std::string out;
  Section(out, "expression", ToString(plan.expr));
  Section(out, "perf", absl::StrFormat("-j %s   branch_sample_type %s\nkinds %s, privilege %s", BranchFlagNames(plan.branch_bits), Hex(plan.branch_bits, 1),
                                       plan.kinds_exact ? "exact" : "wider than asked", plan.privilege_exact ? "exact" : "wider than asked"));
  std::string table;
  for (const Row& row : Rows(plan)) {
    std::string value = row.value ? Hex(*row.value) : "-";
    table += row.remark.empty() ? absl::StrFormat("%-26s %s\n", row.name, value) : absl::StrFormat("%-26s %-10s  %s\n", row.name, value, row.remark);
  }
  Section(out, "hardware", table);
  Section(out, "software", Lines(plan.software, "nothing that hardware could not do"));
  Section(out, "BPF", BpfEmpty(plan) ? "nothing" : Disassemble(plan.bpf.prog));
  Section(out, "user space", Lines(UserSpace(plan), "nothing"));
  Section(out, "contiguous", plan.contiguous ? "yes: every taken branch stays" : "no: records are left out, stacks have gaps");
  std::string kept, lost;
  for (const Survival& use : plan.uses) {
    if (use.survives) {
      kept += use.name + "\n";
    } else {
      lost += use.name + ": " + use.why + "\n";
    }
  }
  Section(out, "still works", kept.empty() ? "nothing" : kept);
  Section(out, "lost", lost);
  Section(out, "note", Lines(plan.notes, ""));
  return out;
}

std::string ExplainJson(const Plan& plan) {
  Json json;
  json["schema"] = "brink.filter.explain.v1";
  json["expression"] = ToString(plan.expr);
  json["perf"] = {{"branch_filter", BranchFlagNames(plan.branch_bits)},
                  {"branch_sample_type", Hex(plan.branch_bits, 1)},
                  {"kinds_exact", plan.kinds_exact},
                  {"privilege_exact", plan.privilege_exact}};
  Json hardware = Json::object();
  for (const Row& row : Rows(plan)) {
    hardware[row.key] = {{"value", row.value ? Json(Hex(*row.value)) : Json(nullptr)}, {"remark", row.remark}};
  }
  json["hardware"] = std::move(hardware);
  json["software"] = plan.software;
  json["bpf"] = {{"kinds", KindList(plan.bpf.prog.kinds)},
                 {"sample_operations", plan.bpf.prog.sample_ops},
                 {"record_operations", plan.bpf.prog.record_ops}};
  json["user_space"] = UserSpace(plan);
  json["contiguous"] = plan.contiguous;
  Json uses = Json::array();
  for (const Survival& use : plan.uses) {
    uses.push_back({{"name", use.name}, {"survives", use.survives}, {"why", use.survives ? Json(nullptr) : Json(use.why)}});
  }
  json["uses"] = std::move(uses);
  json["notes"] = plan.notes;
  return AsciiJson(json);
}

}  // namespace brink::filter
