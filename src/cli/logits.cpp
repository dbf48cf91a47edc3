#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_ids.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/text.h"
#include "eval/all_logits.h"
#include "eval/verify.h"

namespace krafla::cli {
namespace {

struct LogitsOptions {
  ComputeOptions compute;
  std::string ids, out;
  std::size_t chunk = 256;
  KvType kv = KvType::f16;
};

std::vector<std::int32_t> read_ids(const std::string& path) {
  const MappedFile file(path);
  const nlohmann::json root = parse_json(as_text(file.bytes()));
  if (root.is_discarded()) fail(ML_E_FORMAT, "{}: is not valid JSON; a list of token ids is needed", path);
  return json_ids(root, path);
}

/// NumPy's .npy header (version 1.0) for float32 [rows, cols].
std::string npy_header(std::size_t rows, std::size_t cols) {
  std::string dict =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  dict.append(63 - (10 + dict.size()) % 64, ' ');  // the data starts at a multiple of 64
  dict.push_back('\n');
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size() & 0xff) +
         static_cast<char>(dict.size() >> 8) + dict;
}

void run(const LogitsOptions& options) {
  const std::vector<std::int32_t> ids = read_ids(options.ids);
  const auto context = make_context(options.compute);
  const LoadedModel loaded = load_model(options.compute.model, options.compute, context->threads);
  const Model& model = loaded.model;
  check_not_input("--out", options.out, loaded.files, {options.ids});
  OutputFile out(options.out);
  const std::string header = npy_header(ids.size(), model.header().vocab);
  out.write(header.data(), header.size());
  std::size_t position = 0;
  std::optional<std::size_t> first_nan;
  all_logits(model, *context, options.kv, ids, options.chunk, [&](std::span<const float> row) {
    out.write(row.data(), row.size_bytes());
    if (!first_nan && has_nan(row)) first_nan = position;
    ++position;
  });
  out.commit();
  if (first_nan) warn_of_nan(*first_nan, ids[*first_nan]);
}

}  // namespace

void add_logits(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits at every position of a list of token ids");
  auto options = std::make_shared<LogitsOptions>();
  add_compute_options(*command, options->compute);
  command->add_option("--ids", options->ids, "A file with a JSON list of token ids")
      ->required()
      ->check(not_empty);
  command->add_option("--out", options->out, "The .npy file to write: float32 [ids, vocab]")
      ->required()
      ->check(not_empty);
  command
      ->add_option("--chunk", options->chunk, "Positions a forward call; does not change a bit of the result")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
      ->capture_default_str();
  add_kv_option(*command, options->kv);
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
