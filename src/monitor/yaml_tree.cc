#include "monitor/yaml_tree.h"

#include <yaml.h>

#include <algorithm>

#include <absl/cleanup/cleanup.h>

#include "base/strings.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostBytes = 1u << 20, kMostNodes = 100'000;
constexpr int kDeepest = 16;

class Builder {
 public:
  Builder(yaml_document_t* document, const std::string& name) : document_(document), name_(name) {}

  StatusOr<YamlValue> Build(int index, int depth) {
    yaml_node_t* node = yaml_document_get_node(document_, index);
    if (!node || depth > kDeepest || ++nodes_ > kMostNodes) return InvalidArgument(name_ + ": nested too deep or too large");
    YamlValue value;
    value.line = node->start_mark.line + 1;
    if (node->type == YAML_SCALAR_NODE) {
      value.text.assign(reinterpret_cast<const char*>(node->data.scalar.value), node->data.scalar.length);
    } else if (node->type == YAML_SEQUENCE_NODE) {
      value.kind = YamlValue::Kind::kList;
      for (auto* item = node->data.sequence.items.start; item < node->data.sequence.items.top; ++item) {
        ASSIGN_OR_RETURN(YamlValue child, Build(*item, depth + 1));
        value.items.push_back(std::move(child));
      }
    } else {
      value.kind = YamlValue::Kind::kMap;
      for (auto* pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; ++pair) {
        ASSIGN_OR_RETURN(YamlValue key, Build(pair->key, depth + 1));
        ASSIGN_OR_RETURN(YamlValue child, Build(pair->value, depth + 1));
        const std::string where = name_ + ":" + std::to_string(key.line);
        if (key.kind != YamlValue::Kind::kScalar) return InvalidArgument(where + ": a key must be a word");
        if (std::any_of(value.keys.begin(), value.keys.end(), [&](const auto& k) { return k.key == key.text; })) {
          return InvalidArgument(where + ": '" + EscapeForTerminal(key.text) + "' is there twice");
        }
        value.keys.push_back({std::move(key.text), std::move(child)});
      }
    }
    return value;
  }

 private:
  yaml_document_t* document_;
  const std::string& name_;
  size_t nodes_ = 0;
};

}  // namespace

StatusOr<YamlValue> ParseYaml(std::string_view text, const std::string& name) {
  if (text.size() > kMostBytes) return InvalidArgument(name + ": larger than 1 MiB");
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return ResourceExhausted("libyaml");
  absl::Cleanup end_parser = [&] { yaml_parser_delete(&parser); };
  yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  yaml_document_t document;
  if (!yaml_parser_load(&parser, &document)) {
    return InvalidArgument(name + ":" + std::to_string(parser.problem_mark.line + 1) + ": " + (parser.problem ? parser.problem : "no YAML"));
  }
  absl::Cleanup end_document = [&] { yaml_document_delete(&document); };
  if (!yaml_document_get_root_node(&document)) return InvalidArgument(name + ": empty");
  return Builder(&document, name).Build(1, 0);
}

}  // namespace brink::cfi
