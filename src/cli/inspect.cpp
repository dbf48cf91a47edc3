// `krafla inspect FILE`: what a .mlb, .mlt, .mli, .mll or GGUF file holds, and whether it is sound.
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/mapped_file.h"
#include "base/pluralized.h"
#include "cli/commands.h"
#include "formats/gguf.h"
#include "formats/mlb.h"
#include "formats/mli.h"
#include "formats/mll.h"
#include "formats/mlt.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string file;
  bool json = false;
  bool tensors = false;
};

/// What is shown: the same facts as text lines and as JSON.
struct Report {
  Json json;
  std::string text;

  /// A fact with its meaning.
  void fact(const std::string& name, const std::string& value, const char* meaning) {
    text += fmt::format("{:<22} {:<14} {}\n", name, value, meaning);
  }
  void line(const std::string& s) { text += s + "\n"; }
};

void list_arrays(const std::vector<MlbArray>& arrays, bool scale_f16, Report& r) {
  for (const MlbArray& a : arrays) {
    Json j{{"name", a.name()}, {"type", a.type_name()}, {"rows", a.rows},
           {"cols", a.cols},   {"offset", a.offset},    {"bytes", a.size}};
    std::string scales;
    if (a.quantized()) {
      j["d_offset"] = a.d_offset;
      j["d_bytes"] = a.d_size;
      scales = fmt::format(", {} scales at {}", scale_f16 ? "f16" : "f32", a.d_offset);
    }
    r.json["tensors"].push_back(std::move(j));
    r.line(fmt::format("  {:<28} {:<5} {:>7} × {:<6} at {}{}", a.name(), a.type_name(), a.rows, a.cols,
                       a.offset, scales));
  }
}

std::string flags_text(const Mlb& mlb) {
  std::string text;
  for (const MlbLayer& layer : mlb.layers) text += (text.empty() ? "" : " ") + std::to_string(layer.flags);
  return text;
}

Report inspect_mlb(Bytes file, const Arguments& a) {
  const Mlb mlb = parse_mlb(file, a.file);
  const MlbHeader& h = mlb.header;
  const auto arrays = mlb_layout(h, mlb_stored_flags(h, file, a.file), file.size(), a.file);
  Report r;
  r.json = {{"file", a.file}, {"format", "mlb"}, {"bytes", file.size()}};
  r.line(fmt::format("{}: .mlb model, version 1, {} bytes, {} parameters, {:.2f} bits per weight", a.file,
                     file.size(), mlb.parameters,
                     8.0 * static_cast<double>(file.size()) / static_cast<double>(mlb.parameters)));
  for (const MlbField& field : mlb_fields()) {
    const std::string value = mlb_field_text(h, field);
    const Json number = Json::parse(value, nullptr, false);
    r.json["header"][field.name] =
        number.is_discarded() ? Json(value) : number;  // an unused field may hold NaN
    if (value != "0") r.fact(field.name, value, field.meaning);
  }
  r.fact("(head size)", std::to_string(h.head_size()), "derived");
  r.fact("(q_dim, kv_dim)", fmt::format("{}, {}", h.q_dim(), h.kv_dim()), "derived");
  r.fact("(KV cache)", fmt::format("{} bytes", 2 * h.kv_dim() * 2 * h.n_layers),
         "per position with f16, if every layer has one");
  if (h.layer_flags != 0) r.line("layer flags: " + flags_text(mlb));
  r.json["layer_flags"] = Json::array();
  if (h.layer_flags != 0)
    for (const MlbLayer& layer : mlb.layers) r.json["layer_flags"].push_back(layer.flags);
  r.json["parameters"] = mlb.parameters;
  r.json["trailing_bytes"] = mlb.trailing;
  const MlbCanonical canonical = canonical_mlb(h, mlb_stored_flags(h, file, a.file), a.file);
  using Words =
      std::array<std::uint32_t, sizeof(MlbHeader) / 4>;  // bits, not values: -0 is not how a zero is written
  const bool is_canonical = std::bit_cast<Words>(canonical.header) == std::bit_cast<Words>(h);
  r.json["canonical_header"] = is_canonical;
  r.line(fmt::format("arrays: {}; header and sizes checked, no Q8_0 quant is -128", arrays.size()));
  if (!is_canonical) r.line("the header is valid, but not as the canonical writer writes it");
  if (mlb.trailing != 0) r.line(fmt::format("bytes after the last array: {}", mlb.trailing));
  if (a.tensors) list_arrays(arrays, h.scale_f16 != 0, r);
  return r;
}

Report inspect_mlt(Bytes file, const Arguments& a) {
  const Mlt mlt = parse_mlt(file, a.file);
  std::size_t added = 0, bytes = 0;
  for (const MltToken& t : mlt.tokens) {
    added += (t.attr & kMltAdded) != 0;
    bytes += (t.attr & kMltByte) != 0;
  }
  Report r;
  r.json = {{"file", a.file}, {"format", "mlt"}, {"bytes", file.size()}};
  r.json["kind"] = static_cast<std::uint32_t>(mlt.kind);
  r.json["flags"] = mlt.flags;
  r.json["tokens"] = mlt.tokens.size();
  r.json["merges"] = mlt.merges.size();
  r.json["bos"] = mlt.bos;
  r.json["eos"] = mlt.eos;
  r.json["added_tokens"] = added;
  r.json["byte_tokens"] = bytes;
  r.json["trailing_bytes"] = mlt.trailing;
  r.line(fmt::format("{}: .mlt tokenizer, version 1, {} bytes", a.file, file.size()));
  r.fact("kind", std::to_string(static_cast<std::uint32_t>(mlt.kind)),
         "1 = SentencePiece-style BPE, 2 = byte-level BPE");
  r.fact("flags", std::to_string(mlt.flags), "see docs/formats/mlt.md");
  r.fact("tokens", std::to_string(mlt.tokens.size()),
         fmt::format("{} added, {}", added, pluralized(bytes, "byte token")).c_str());
  r.fact("merges", std::to_string(mlt.merges.size()), "");
  r.fact("bos, eos", fmt::format("{}, {}", mlt.bos, mlt.eos), "-1: none");
  if (mlt.trailing != 0) r.line(fmt::format("bytes after the last merge: {}", mlt.trailing));
  return r;
}

Report inspect_mli(Bytes file, const Arguments& a) {
  const Mli m = parse_mli(file, a.file);
  Report r;
  r.json = {{"file", a.file}, {"format", "mli"}, {"bytes", file.size()}};
  r.json["n_layers"] = m.n_layers;
  r.json["dim"] = m.dim;
  r.json["hidden_dim"] = m.hidden_dim;
  r.json["q_dim"] = m.q_dim;
  r.json["layer_tokens"] = m.layer_tokens;
  r.json["classifier_tokens"] = m.classifier_tokens;
  r.line(fmt::format("{}: importance matrix, version 1, {} bytes, every sum checked", a.file, file.size()));
  for (const auto& [name, value] : r.json.items())
    if (value.is_number() && name != "bytes") r.fact(name, value.dump(), "");
  return r;
}

Report inspect_mll(Bytes file, const Arguments& a) {
  const Mll saved = parse_mll(file, a.file);
  const ScoredText& text = saved.text;
  Report r;
  r.json = {{"file", a.file}, {"format", "mll"}, {"bytes", file.size()}};
  r.line(fmt::format("{}: saved logits, version 1, {} bytes, ids and sizes checked", a.file, file.size()));
  const auto fact = [&](const char* name, std::int64_t value, const char* meaning) {
    r.json[name] = value;
    r.fact(name, std::to_string(value), meaning);
  };
  const auto number = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  fact("vocab", number(text.vocab), "logits a row");
  fact("ctx", number(text.windows.ctx), "tokens of a window");
  fact("stride", number(text.windows.stride), "0: chunks, as llama.cpp's");
  fact("windows", number(text.windows.count), "");
  fact("n_ids", number(text.windows.n_ids), "tokens of the text");
  fact("bos", text.bos, "the first id of every window; -1: the text's own");
  fact("rows", number(text.windows.rows()), "scored positions");
  return r;
}

std::string value_text(const GgufValue& v) {
  if (v.is_array()) return fmt::format("{} × {}", v.count, gguf_type_name(v.element));
  if (v.type == GgufType::string) return printable(v.strings[0]);
  if (v.type == GgufType::boolean) return v.raw[0] != 0 ? "true" : "false";
  if (v.type == GgufType::f32 || v.type == GgufType::f64) return fmt::format("{:g}", v.number().value_or(0));
  return v.integer() ? std::to_string(*v.integer()) : "above 2^63";
}

Report inspect_gguf(Bytes file, const Arguments& a) {
  const Gguf g = parse_gguf(file, a.file);
  Report r;
  r.json = {{"file", a.file},
            {"format", "gguf"},
            {"bytes", file.size()},
            {"version", g.version},
            {"alignment", g.alignment}};
  std::uint64_t parameters = 0;
  for (const GgufTensor& t : g.tensors) parameters += std::uint64_t{t.rows()} * t.cols();
  r.line(fmt::format("{}: GGUF, version {}, {} bytes, {} in {}", a.file, g.version, file.size(),
                     pluralized(parameters, "parameter"), pluralized(g.tensors.size(), "tensor")));
  r.json["parameters"] = parameters;
  for (const GgufEntry& e : g.metadata) {
    r.json["metadata"][printable(e.key)] = value_text(e.value);
    r.fact(printable(e.key), value_text(e.value), "");
  }
  if (!a.tensors) return r;
  for (const GgufTensor& t : g.tensors) {
    r.json["tensors"].push_back({{"name", printable(t.name)},
                                 {"type", t.type->name},
                                 {"rows", t.rows()},
                                 {"cols", t.cols()},
                                 {"offset", t.offset}});
    r.line(fmt::format("  {:<28} {:<5} {:>7} × {:<6} at {}", printable(t.name), t.type->name, t.rows(),
                       t.cols(), t.offset));
  }
  return r;
}

void run(Arguments& a) {
  std::error_code ignored;
  if (!std::filesystem::exists(a.file, ignored) && std::filesystem::exists(a.file + ".mlb", ignored))
    a.file += ".mlb";  // a model's NAME
  const MappedFile file(a.file);
  const Bytes bytes = file.bytes();
  const auto is = [&](const char* magic, const char* extension) {
    return bytes.size() >= 4 ? starts_with(bytes, magic) : a.file.ends_with(extension);
  };
  Report r;
  if (is("MLT1", ".mlt"))
    r = inspect_mlt(bytes, a);
  else if (is("MLI1", ".mli"))
    r = inspect_mli(bytes, a);
  else if (is("MLL1", ".mll"))
    r = inspect_mll(bytes, a);
  else if (is("GGUF", ".gguf"))
    r = inspect_gguf(bytes, a);
  else
    r = inspect_mlb(bytes, a);
  const std::string out = a.json ? r.json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n" : r.text;
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a .mlb, .mlt, .mli, .mll or GGUF file holds, and check it");
  auto a = std::make_shared<Arguments>();
  command->add_option("FILE", a->file, "the file, or the NAME of a model's NAME.mlb")->required();
  command->add_flag("--json", a->json, "print JSON");
  command->add_flag("--tensors", a->tensors, "list every array too");
  command->callback([a] { run(*a); });
}

}  // namespace krafla::cli
