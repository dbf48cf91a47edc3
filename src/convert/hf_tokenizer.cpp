#include "convert/hf_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json.h"
#include "base/json_ids.h"
#include "base/mapped_file.h"
#include "convert/hf_rules.h"
#include "convert/outputs.h"
#include "convert/overlaps.h"
#include "formats/gguf.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// A JSON object; of an empty text an empty one.
Json parse_object(const std::string& text, const std::string& name) {
  if (text.empty()) return Json::object();
  Json root = parse_json(text);
  if (root.is_discarded())
    fail(ML_E_FORMAT, "{}: is not valid JSON, or nests deeper than {}", name, kMostNested);
  if (!root.is_object()) fail(ML_E_FORMAT, "{}: must hold a JSON object", name);
  return root;
}

struct AddedToken {
  std::int32_t id = -1;
  std::string text;
  bool special = false, normalized = false;
};

class HfConverter {
 public:
  HfConverter(const HfTokenizer& source, std::size_t model_vocab)
      : source_(source), file_(source.file), model_vocab_(model_vocab) {}

  ConvertedTokenizer convert() {
    root_ = parse_object(source_.tokenizer, file_);
    rules_ = read_hf_rules(root_, file_);
    result_.mlt.kind = rules_.kind;
    result_.mlt.flags = rules_.flags;
    read_added();
    read_vocabulary();
    check_bytes();
    read_merges();
    read_bos_and_eos();
    write_json();
    return std::move(result_);
  }

 private:
  template <class... Args>
  [[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ML_E_FORMAT, "{}: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ML_E_UNSUPPORTED, "{}: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }

  void read_added() {
    const auto it = root_.find("added_tokens");
    if (it == root_.end() || it->is_null()) return;
    if (!it->is_array()) broken("added_tokens is no list");
    for (const Json& entry : *it) {
      if (!entry.is_object() || !entry.contains("content") || !entry["content"].is_string() ||
          !entry.contains("id"))
        broken("added_tokens: {} has no content or no id",
               printable(entry.dump(-1, ' ', true, Json::error_handler_t::replace)));
      AddedToken token;
      token.id = json_id(entry["id"], file_ + ": added_tokens: id");
      token.text = entry["content"].get<std::string>();
      const auto set = [&](const char* key) { return entry.value(key, false); };
      for (const char* rule : {"single_word", "lstrip", "rstrip"})
        if (set(rule))
          refuse("the added token \"{}\" has {}, which a .mlt cannot express", printable(token.text), rule);
      token.special = set("special");
      token.normalized = set("normalized");
      if (token.normalized && rules_.normalizes)
        refuse("the added token \"{}\" is matched in normalized text, which a .mlt cannot express",
               printable(token.text));
      added_.push_back(std::move(token));
    }
    check_added_order();
  }

  /// The library looks for the tokens with "normalized" in what the others have left; a .mlt for all at once.
  /// The two differ where one of the former begins before one of the latter and touches it.
  void check_added_order() const {
    std::vector<std::string_view> early;
    for (const AddedToken& token : added_)
      if (!token.normalized) early.push_back(token.text);
    const Overlaps overlaps(early);
    for (const AddedToken& late : added_) {
      if (!late.normalized) continue;
      if (const std::size_t i = overlaps.find(late.text); i != Overlaps::kNone)
        refuse(
            "the added tokens \"{}\" and \"{}\" overlap and differ in \"normalized\", which a .mlt cannot "
            "express",
            printable(late.text), printable(early[i]));
    }
  }

  const Json& model_member(const char* key) const {
    const auto it = root_["model"].find(key);
    if (it == root_["model"].end()) broken("model has no \"{}\"", key);
    return *it;
  }

  void read_vocabulary() {
    const Json& vocab = model_member("vocab");
    if (!vocab.is_object()) broken("model.vocab is no object of texts and ids");
    std::size_t count = 0, total = 0;
    const auto see = [&](std::int32_t id, std::size_t length) {
      count = std::max(count, static_cast<std::size_t>(id) + 1);
      total += length;
    };
    for (const auto& [text, id] : vocab.items()) see(json_id(id, file_ + ": model.vocab"), text.size());
    for (const AddedToken& token : added_) see(token.id, token.text.size());
    if (count / 2 > vocab.size() + added_.size())  // before memory is taken for it
      broken("the highest token id is {}, but there are only {} tokens", count - 1,
             vocab.size() + added_.size());
    result_.mlt.tokens.resize(count);
    result_.bytes = std::make_unique<char[]>(total + 1);
    char* at = result_.bytes.get();
    std::vector<bool> taken(count);
    ids_.reserve(vocab.size());
    for (const auto& [text, value] : vocab.items()) {
      const auto id = value.get<std::size_t>();
      if (taken[id]) broken("model.vocab: two tokens have the id {}", id);
      taken[id] = true;
      ids_.emplace(text, static_cast<std::uint32_t>(id));
      at = add_piece(text, id, at);
    }
    special_.resize(count);
    for (const AddedToken& token : added_) add_added(token, taken, at);
    leave_out_unknown_rows();
  }

  /// Returns one past the last byte written.
  char* add_piece(const std::string& text, std::size_t id, char* const start) {
    char* end = start;
    std::uint8_t attr = 0;
    if (const auto byte = byte_piece(text); byte && rules_.kind == MltKind::kSentencePiece) {
      *end++ = static_cast<char>(*byte);
      attr = kMltByte;
    } else if (rules_.kind == MltKind::kSentencePiece || is_added(static_cast<std::int32_t>(id))) {
      end = std::copy(text.begin(), text.end(), start);
    } else {
      end = unprintable(text, start);
      if (end == nullptr)
        broken("token {} has a character that stands for no byte in GPT-2's alphabet: \"{}\"", id,
               printable(text));
    }
    result_.mlt.tokens[id] = {{start, static_cast<std::size_t>(end - start)}, attr};
    return end;
  }

  bool is_added(std::int32_t id) {
    if (added_ids_.empty())
      for (const AddedToken& token : added_) added_ids_.insert(token.id);
    return added_ids_.contains(id);
  }

  void add_added(const AddedToken& token, std::vector<bool>& taken, char*& at) {
    const auto id = static_cast<std::size_t>(token.id);
    const auto known = ids_.find(token.text);
    if (known != ids_.end() ? known->second != id : static_cast<bool>(taken[id]))
      broken("the added token \"{}\" has the id {}, but model.vocab says otherwise", printable(token.text),
             id);
    taken[id] = true;
    char* const start = at;
    at = std::copy(token.text.begin(), token.text.end(), at);
    result_.mlt.tokens[id] = {{start, token.text.size()}, kMltAdded};
    special_[id] = token.special;
    if (!token.text.empty()) added_by_text_.emplace(token.text, token.id);
  }

  void leave_out_unknown_rows() {
    auto& tokens = result_.mlt.tokens;
    while (tokens.size() > model_vocab_ && tokens.back().attr == kMltAdded) tokens.pop_back();
    special_.resize(tokens.size());
    std::erase_if(added_by_text_,
                  [&](const auto& token) { return static_cast<std::size_t>(token.second) >= tokens.size(); });
  }

  /// Without its bytes a vocabulary has an unknown token, for which a .mlt has no rule. The byte-level one
  /// drops them, if it has none.
  void check_bytes() const {
    std::vector<bool> there(256);
    const bool sentencepiece = rules_.kind == MltKind::kSentencePiece;
    for (std::size_t id = 0; id < result_.mlt.tokens.size(); ++id) {
      const auto& [bytes, attr] = result_.mlt.tokens[id];
      // A character of one byte that has a token needs no byte token.
      if (bytes.size() == 1 && (sentencepiece ? !special_[id] : attr == 0))
        there[static_cast<std::uint8_t>(bytes[0])] = true;
    }
    const auto missing = std::find(there.begin(), there.end(), false) - there.begin();
    if (missing == 256) return;
    const Json& model = root_["model"];
    if (sentencepiece) refuse("model.byte_fallback is on, but there is no token <0x{:02X}>", missing);
    if (const Json unk = model.value("unk_token", Json()); !unk.is_null())
      refuse("model.unk_token is {}, and the byte {:02x} has no token; a .mlt has no unknown token",
             printable(unk.dump()), missing);
    if (model.value("byte_fallback", Json()) == true)
      refuse("model.byte_fallback is on in a byte-level vocabulary without the byte {:02x}", missing);
  }

  void read_merges() {
    const Json& merges = model_member("merges");
    if (!merges.is_array()) broken("model.merges is no list");
    result_.mlt.merges.reserve(merges.size());
    std::string merged;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto [left, right] = pair_of(merges[rank], rank);
      const auto id = [&, l = left, r = right](std::string_view text) {
        const auto it = ids_.find(text);
        if (it == ids_.end())
          broken("model.merges: merge {} (\"{}\" and \"{}\") is not two tokens that make a third", rank,
                 printable(l), printable(r));
        if (it->second >= result_.mlt.tokens.size())
          broken("model.merges: merge {} is of a token beyond the model's rows", rank);
        return it->second;
      };
      merged.assign(left).append(right);
      const MltMerge merge = {id(left), id(right), id(merged)};
      check_merge(merge, rank);
      result_.mlt.merges.push_back(merge);
    }
  }

  std::pair<std::string_view, std::string_view> pair_of(const Json& merge, std::size_t rank) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
        return {text.substr(0, space), text.substr(space + 1)};
    }
    broken("model.merges: merge {} is neither \"left right\" nor a list of two", rank);
  }

  void check_merge(const MltMerge& merge, std::size_t rank) const {
    const auto& tokens = result_.mlt.tokens;
    if (rules_.splits_at_space && tokens[merge.right].bytes.starts_with(kMltSpace))
      refuse(
          "pre_tokenizer Metaspace splits at every space, but merge {} joins over one (\"split\": false can "
          "be expressed)",
          rank);
    const std::string_view left = tokens[merge.left].bytes, right = tokens[merge.right].bytes,
                           merged = tokens[merge.merged].bytes;
    if (left.size() + right.size() != merged.size() || !merged.starts_with(left) || !merged.ends_with(right))
      refuse(
          "merge {} joins tokens of text to a byte, or to an added token in GPT-2's alphabet, which a .mlt "
          "cannot express",
          rank);
  }

  /// The text of a special token in a config: a text, or an object with "content"; "" if there is none.
  static std::string special_text(const Json& config, const char* key) {
    const auto it = config.find(key);
    if (it == config.end()) return {};
    if (it->is_string()) return it->get<std::string>();
    return it->is_object() && it->contains("content") && (*it)["content"].is_string()
               ? (*it)["content"].get<std::string>()
               : "";
  }

  std::int32_t id_of(const std::string& text) const {
    if (text.empty()) return -1;
    if (const auto it = added_by_text_.find(text); it != added_by_text_.end()) return it->second;
    const auto it = ids_.find(text);
    return it != ids_.end() && it->second < result_.mlt.tokens.size() ? static_cast<std::int32_t>(it->second)
                                                                      : -1;
  }

  void read_bos_and_eos() {
    config_ = parse_object(source_.tokenizer_config, beside("tokenizer_config.json"));
    const Json map = parse_object(source_.special_tokens_map, beside("special_tokens_map.json"));
    const auto named = [&](const char* key) {
      const bool in_config = !special_text(config_, key).empty();
      const std::string text = special_text(in_config ? config_ : map, key);
      const std::int32_t id = id_of(text);
      const auto is_known = [&](const AddedToken& token) {
        return token.text == text;
      };  // it may be beyond the model's rows
      if (id < 0 && !text.empty() && !ids_.contains(text) &&
          std::none_of(added_.begin(), added_.end(), is_known))
        fail(ML_E_FORMAT, "{}: {} is \"{}\", but {} has no such token; name one of its tokens, or null",
             beside(in_config ? "tokenizer_config.json" : "special_tokens_map.json"), key, printable(text),
             file_);
      return id;
    };
    Mlt& mlt = result_.mlt;
    mlt.eos = named("eos_token");
    const std::string first = read_hf_first_token(root_, file_);
    mlt.bos = first.empty() ? named("bos_token") : id_of(first);
    if (!first.empty() && mlt.bos < 0) broken("post_processor: \"{}\" is no token", printable(first));
    // The post_processor says what the library does; the config only where there is none.
    const Json post = root_.value("post_processor", Json()), add = config_.value("add_bos_token", Json());
    if (!first.empty() || (post.is_null() && add == true && mlt.bos >= 0)) mlt.flags |= kMltPrependBos;
  }

  std::string beside(const char* name) const { return (fs::path(file_).parent_path() / name).string(); }

  void write_json() {
    OrderedJson json;
    json["format"] = 1;
    if (!source_.name.empty()) json["name"] = source_.name;
    if (OrderedJson text = chat_template(); !text.is_null()) json["chat_template"] = std::move(text);
    note_templates(json, result_.notes);
    const Json generation = parse_object(source_.generation_config, beside("generation_config.json"));
    std::set<std::int32_t> ends;
    for (const auto& [object, name] :
         {std::pair{generation, "generation_config.json"},
          {parse_object(source_.config, beside("config.json")), "config.json"}}) {
      const Json found = object.value("eos_token_id", Json());
      if (found.is_null()) continue;
      for (const std::int32_t id :
           json_ids(found.is_array() ? found : Json::array({found}), beside(name) + ": eos_token_id"))
        if (static_cast<std::size_t>(id) < result_.mlt.tokens.size())
          ends.insert(id);
        else
          result_.notes.push_back(
              fmt::format("{}: eos_token_id {} is not used; the tokenizer's ids are 0 to {}", name, id,
                          result_.mlt.tokens.size() - 1));
    }
    add_token_ids(json, result_.mlt, special_, ends);
    if (OrderedJson values = sampling(generation); !values.empty()) json["sampling"] = std::move(values);
    result_.json = json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  }

  OrderedJson chat_template() const {
    OrderedJson named;
    if (!source_.chat_template.empty()) {
      named["default"] = source_.chat_template;
    } else if (const auto it = config_.find("chat_template"); it != config_.end() && !it->is_null()) {
      if (it->is_string()) {
        named["default"] = *it;
      } else {
        for (const Json& entry : it->is_array() ? *it : Json::array({nullptr})) {
          if (!entry.is_object() || !entry.value("name", Json()).is_string() ||
              !entry.value("template", Json()).is_string())
            fail(ML_E_FORMAT,
                 "{}: chat_template is neither a text nor a list of objects with name and template",
                 beside("tokenizer_config.json"));
          named[entry["name"].get<std::string>()] = entry["template"];
        }
      }
    }
    for (const auto& [name, text] : source_.more_templates) named[name] = text;
    return named.size() == 1 && named.contains("default") ? named["default"] : named;
  }

  /// The checkpoint's defaults, if it samples at all. What sampling cannot use is noted; some write -1 for
  /// "off".
  OrderedJson sampling(const Json& generation) {
    struct Range {
      const char* key;
      bool (*holds)(double);
      const char* allowed;
    };
    constexpr Range kRanges[] = {
        {"temperature", [](double x) { return x >= 0 && x <= 100; }, "a number from 0 to 100"},
        {"top_p", [](double x) { return x > 0 && x <= 1; }, "a number above 0, at most 1"},
        {"top_k", [](double x) { return x >= 0 && x <= (1 << 24); }, "an integer from 0 to 16777216"},
        {"min_p", [](double x) { return x >= 0 && x <= 1; }, "a number from 0 to 1"},
        {"repetition_penalty", [](double x) { return x > 0 && x <= 100; }, "a number above 0, at most 100"}};
    const auto note = [&](const char* key, const Json& value, const char* allowed) {
      const std::string found = value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
      result_.notes.push_back(fmt::format(
          "generation_config.json: {} is {}, which is not used; allowed is {}", key, found, allowed));
    };
    OrderedJson values = OrderedJson::object();
    const Json samples = generation.value("do_sample", Json());
    if (samples == false) return values;
    if (!samples.is_boolean() && !samples.is_null()) note("do_sample", samples, "true or false");
    for (const Range& range : kRanges) {
      const Json value = generation.value(range.key, Json());
      if (value.is_null()) continue;
      const bool right_type =
          range.key == std::string_view("top_k") ? value.is_number_integer() : value.is_number();
      if (right_type && range.holds(value.get<double>()))
        values[range.key] = value;
      else
        note(range.key, value, range.allowed);
    }
    return values;
  }

  const HfTokenizer& source_;
  const std::string& file_;
  std::size_t model_vocab_;
  Json root_, config_;
  HfRules rules_;
  ConvertedTokenizer result_;
  std::vector<AddedToken> added_;
  std::set<std::int32_t> added_ids_;
  std::unordered_map<std::string_view, std::uint32_t> ids_;  // of model.vocab, whose texts it views
  std::map<std::string, std::int32_t, std::less<>> added_by_text_;
  std::vector<bool> special_;  // by id
};

std::string read_text(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const MappedFile file(path.string());
  if (file.bytes().empty() && path.extension() == ".json")
    fail(ML_E_FORMAT, "{}: is empty; needed: JSON", path.string());
  return {file.bytes().begin(), file.bytes().end()};
}

}  // namespace

HfTokenizer read_hf_tokenizer(const std::string& path) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
  const fs::path json = fs::is_directory(path, ignored) ? folder / "tokenizer.json" : fs::path(path);
  HfTokenizer result;
  result.file = json.string();
  result.name = last_name(folder.string());
  const MappedFile file(result.file);  // which says it if there is none
  result.tokenizer.assign(file.bytes().begin(), file.bytes().end());
  result.tokenizer_config = read_text(folder / "tokenizer_config.json");
  result.special_tokens_map = read_text(folder / "special_tokens_map.json");
  result.generation_config = read_text(folder / "generation_config.json");
  result.config = read_text(folder / "config.json");
  result.chat_template = read_text(folder / "chat_template.jinja");
  if (fs::is_directory(folder / "additional_chat_templates", ignored))
    for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", ignored))
      if (entry.path().extension() == ".jinja")
        result.more_templates.emplace_back(entry.path().stem().string(), read_text(entry.path()));
  std::sort(result.more_templates.begin(), result.more_templates.end());
  return result;
}

ConvertedTokenizer convert_hf_tokenizer(const HfTokenizer& source, std::size_t model_vocab) {
  try {
    return HfConverter(source, model_vocab).convert();
  } catch (const Json::exception& e) {
    fail(ML_E_FORMAT, "{}: {}", source.file, printable(e.what()));
  }
}

}  // namespace krafla
