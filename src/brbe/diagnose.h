// From a symptom to what to look at, and the remedies for what articles say about BRBE.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brbe/check.h"

namespace brink::brbe {

struct Cause {
  const char* cause;
  const char* look;    // how to see it
  const char* remedy;
  // Topic of CheckConfiguration that judges it from register values ("" = none).
  const char* topic;
};

struct Symptom {
  const char* name;
  const char* words;  // words that lead here
  const char* summary;
  std::vector<Cause> causes;  // most likely first
};

const std::vector<Symptom>& AllSymptoms();
// By name or by words ("records missing", "cycle counts wrong"); nullptr where nothing fits.
const Symptom* FindSymptom(std::string_view text);

// What the given registers say about a cause: "YES", "likely", "no" or "here" (where they do not decide).
struct Verdict {
  const char* word;
  std::string text;
  std::vector<std::string> hangs_on;  // inputs not given
};
std::vector<Verdict> VerdictsOn(const Cause& cause, const Environment& environment);

// The symptom's causes, with a verdict from the given registers where they tell.
std::string DiagnoseText(const Symptom& symptom, const Environment& environment);

// A spelling seen in articles that no kernel or tool accepts: what is right instead. nullopt for others.
// Covers `-e arm_brbe/...`, `--branch-history` of annotate, and constants such as `DIRECT|INDIRECT` in the high word.
std::optional<std::string> ArticleSpelling(std::string_view text);

}  // namespace brink::brbe
