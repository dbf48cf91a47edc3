#include "convert/hf_rules.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace krafla {
namespace {

using Json = nlohmann::json;
using Steps = std::vector<const Json*>;

// The regexes the runtime has scanners for, as tokenizer.json files write them; pretokenize.h has them too.
struct KnownRegex {
  const char* regex;
  std::uint32_t flags;
};
constexpr KnownRegex kRegexes[] = {
    {R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re", kMltGpt2Regex},
    {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
     0},
    {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
     kMltSingleDigits},
    {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
     kMltSingleDigits | kMltMarksAreLetters},
};

/// Reads the JSON and says what cannot be expressed.
class RuleReader {
 public:
  RuleReader(const Json& root, const std::string& file) : root_(root), file_(file) {}

  HfRules read() {
    const Steps splits = steps("pre_tokenizer", "pretokenizers");
    bool byte_level = false;
    for (const Json* step : splits) byte_level |= type_of(*step, "pre_tokenizer") == "ByteLevel";
    check_model();
    if (byte_level)
      read_byte_level(splits);
    else
      read_sentencepiece(splits);
    return rules_;
  }

  std::string first_token() const {
    std::string first;
    for (const Json* step : steps("post_processor", "processors")) {
      const std::string type = type_of(*step, "post_processor");
      if (type == "ByteLevel") continue;  // changes offsets only
      if (type != "TemplateProcessing" || !first.empty()) refuse("post_processor", *step);
      const Json& parts = member(*step, "single", "post_processor");
      bool text = false;
      for (const Json& part : parts.is_array() ? parts : Json::array()) {
        if (part.is_object() && part.contains("Sequence") && !text) {
          text = true;
        } else if (part.is_object() && part.contains("SpecialToken") && !text && first.empty() &&
                   part["SpecialToken"].is_object() && part["SpecialToken"].value("id", Json()).is_string()) {
          first = special_text(*step, part["SpecialToken"]["id"].get<std::string>());
        } else {
          refuse("post_processor", *step);
        }
      }
      if (!text) refuse("post_processor", *step);
    }
    return first;
  }

 private:
  [[noreturn]] void refuse(const char* section, const Json& value,
                           const char* why = "a .mlt has no such rule") const {
    fail(ML_E_UNSUPPORTED, "{}: {} {}: {}", file_, section,
         value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 400), why);
  }

  std::string type_of(const Json& step, const char* section) const {
    const Json& type = member(step, "type", section);
    if (!type.is_string()) fail(ML_E_FORMAT, "{}: {}: \"type\" is no text", file_, section);
    return type.get<std::string>();
  }

  const Json& member(const Json& object, const char* key, const char* section) const {
    const auto it = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || it == object.end())
      fail(ML_E_FORMAT, "{}: {} has no \"{}\"", file_, section, key);
    return *it;
  }

  /// A missing key or null is `missing`.
  static bool flag(const Json& object, const char* key, bool missing) {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? missing : *it == Json(true);
  }

  /// The steps of a section, one by one; Sequences (of which `inner` names the list) are opened.
  Steps steps(const char* section, const char* inner) const {
    Steps result;
    std::vector<const Json*> waiting;
    if (const auto it = root_.find(section); it != root_.end() && !it->is_null()) waiting.push_back(&*it);
    while (!waiting.empty()) {
      const Json& step = *waiting.back();
      waiting.pop_back();
      if (type_of(step, section) != "Sequence") {
        result.push_back(&step);
        continue;
      }
      const Json& list = member(step, inner, section);
      if (!list.is_array()) fail(ML_E_FORMAT, "{}: {}: \"{}\" is no list", file_, section, inner);
      for (auto it = list.rbegin(); it != list.rend(); ++it) waiting.push_back(&*it);
    }
    return result;
  }

  void check_model() const {
    const Json& model = member(root_, "model", "tokenizer.json");
    if (const std::string type =
            model.is_object() && model.contains("type") ? type_of(model, "model") : "BPE";
        type != "BPE")
      fail(ML_E_UNSUPPORTED, "{}: model \"{}\": only BPE can be expressed", file_, type);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"})
      if (const auto it = model.find(key);
          it != model.end() && !it->is_null() && *it != Json("") && *it != 0.0)
        refuse("model", {{key, *it}});
  }

  void read_byte_level(const Steps& splits) {
    rules_.kind = MltKind::kByteLevel;
    const Json& model = root_["model"];
    if (flag(model, "ignore_merges", false)) rules_.flags |= kMltIgnoreMerges;
    for (const Json* step : steps("normalizer", "normalizers")) {
      if (type_of(*step, "normalizer") != "NFC") refuse("normalizer", *step);
      rules_.flags |= kMltNfc;
      rules_.normalizes = true;
    }
    bool has_regex = false, done = false;
    for (const Json* step : splits) {
      const std::string type = type_of(*step, "pre_tokenizer");
      if (done) refuse("pre_tokenizer", *step);
      if (type == "Digits" && flag(*step, "individual_digits", false) && !has_regex) {
        rules_.flags |= kMltSplitDigits;
      } else if (type == "Split" && !has_regex) {
        rules_.flags |= regex_flags(*step);
        has_regex = true;
      } else if (type == "ByteLevel" && !flag(*step, "add_prefix_space", true) &&
                 flag(*step, "use_regex", true) != has_regex) {
        if (!has_regex) rules_.flags |= kMltGpt2Regex;
        done = true;
      } else {
        refuse("pre_tokenizer", *step);
      }
    }
    const Steps decoders = steps("decoder", "decoders");
    if (decoders.size() != 1 || type_of(*decoders[0], "decoder") != "ByteLevel")
      refuse("decoder", root_.value("decoder", Json()), "byte-level tokens need the decoder ByteLevel");
  }

  std::uint32_t regex_flags(const Json& split) const {
    const Json& pattern = member(split, "pattern", "pre_tokenizer");
    const Json behavior = split.value("behavior", Json());
    const bool inverted = flag(split, "invert", false);
    // All text matches these regexes: to cut out the matches and to take away what is between them are one.
    if ((behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted))
      for (const KnownRegex& known : kRegexes)
        if (pattern.is_object() && pattern.size() == 1 && pattern.value("Regex", Json()) == known.regex)
          return known.flags;
    refuse("pre_tokenizer", split, "a .mlt has only the regexes of GPT-2, Llama 3, Qwen 2 and Qwen 3.5");
  }

  void read_sentencepiece(const Steps& splits) {
    rules_.kind = MltKind::kSentencePiece;
    const Json& model = root_["model"];
    if (!flag(model, "byte_fallback", false))
      refuse("pre_tokenizer", root_.value("pre_tokenizer", Json()),
             "BPE needs the pre-tokenizer ByteLevel or the model's byte_fallback");
    if (flag(model, "ignore_merges", false)) refuse("model", {{"ignore_merges", true}});
    bool prepends = false, replaces = false, prefix_chosen = false;
    for (const Json* step : steps("normalizer", "normalizers")) {
      if (*step == Json{{"type", "Prepend"}, {"prepend", kMltSpace}} && !prepends && !replaces)
        prepends = true;
      else if (*step == Json{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMltSpace}} &&
               !replaces)
        replaces = true;
      else
        refuse("normalizer", *step);
    }
    rules_.normalizes = prepends || replaces;
    for (const Json* step : splits) {
      const std::string type = type_of(*step, "pre_tokenizer");
      if (type == "Metaspace" && !prepends && !prefix_chosen &&
          step->value("replacement", Json()) == kMltSpace) {
        read_metaspace(*step);
        prefix_chosen = replaces = true;
      } else if (type != "Split" || !replaces || step->value("pattern", Json()) != Json{{"String", " "}}) {
        refuse("pre_tokenizer", *step);  // but a split at spaces, where no space is left, does nothing
      }
    }
    if (!replaces)
      refuse("normalizer", root_.value("normalizer", Json()), "nothing turns spaces into U+2581");
    if (!prepends && !prefix_chosen) rules_.flags |= kMltNoPrefix;
    check_decoder();
  }

  void read_metaspace(const Json& step) {
    const Json scheme =
        step.value("prepend_scheme", Json(flag(step, "add_prefix_space", true) ? "always" : "never"));
    if (scheme == "first")
      rules_.flags |= kMltPrefixAtStart;
    else if (scheme == "never")
      rules_.flags |= kMltNoPrefix;
    else
      refuse("pre_tokenizer", step,
             "a .mlt's prefix does not depend on whether the text begins with a space");
    rules_.splits_at_space = flag(step, "split", true);
  }

  /// U+2581 to spaces, bytes, all joined, and a space taken away at the beginning exactly where one is put
  /// there.
  void check_decoder() const {
    const bool prefix = (rules_.flags & kMltNoPrefix) == 0;
    bool spaces = false, bytes = false, strips = false;
    for (const Json* step : steps("decoder", "decoders")) {
      const std::string type = type_of(*step, "decoder");
      if (type == "Replace" && step->value("pattern", Json()) == Json{{"String", kMltSpace}} &&
          step->value("content", Json()) == " ") {
        spaces = true;
      } else if (type == "Metaspace") {
        spaces = true;
        strips = step->value("prepend_scheme",
                             Json(flag(*step, "add_prefix_space", true) ? "always" : "never")) != "never";
      } else if (type == "ByteFallback") {
        bytes = true;
      } else if (type == "Strip" && step->value("content", Json()) == " " &&
                 step->value("start", Json()) == 1 && step->value("stop", Json()) == 0) {
        strips = true;
      } else if (type != "Fuse") {
        refuse("decoder", *step);
      }
    }
    if (!spaces || !bytes || strips != prefix)
      refuse("decoder", root_.value("decoder", Json()), "a .mlt decodes its tokens in another way");
  }

  std::string special_text(const Json& step, const std::string& name) const {
    const auto all = step.find("special_tokens");
    const bool there =
        all != step.end() && all->is_object() && all->contains(name) && (*all)[name].is_object();
    const Json tokens = there ? (*all)[name].value("tokens", Json()) : Json();
    if (!tokens.is_array() || tokens.size() != 1 || !tokens[0].is_string()) refuse("post_processor", step);
    return tokens[0].get<std::string>();
  }

  const Json& root_;
  const std::string& file_;
  HfRules rules_;
};

}  // namespace

HfRules read_hf_rules(const Json& root, const std::string& file) { return RuleReader(root, file).read(); }

std::string read_hf_first_token(const Json& root, const std::string& file) {
  return RuleReader(root, file).first_token();
}

}  // namespace krafla
