#include "cli/compute.h"

#include <cstdio>
#include <map>

#include "base/cpu.h"
#include "base/numa.h"
#include "cli/hint.h"
#include "engine/model_files.h"

namespace krafla::cli {

std::string not_empty(const std::string& value) { return value.empty() ? "the name is empty" : ""; }

void add_compute_options(CLI::App& command, ComputeOptions& options) {
  command.add_option("model", options.model, "NAME, NAME.mlb or any file of the model")->required();
  command
      .add_option("-t,--threads", options.threads,
                  "Threads; the default is one for each physical core this process may use")
      ->check(CLI::Range(1, 1024));
  add_kernel_options(command, options);
}

void add_kernel_options(CLI::App& command, ComputeOptions& options) {
  command.add_option(
      "--isa", options.isa,
      "Force an instruction set (`krafla cpu` lists them); exit code 3 if it is not there. Also KRAFLA_ISA");
  command.add_flag("--skip-check", options.skip_check,
                   "Do not scan the weights for -128 (for files already checked)");
  command.add_flag("--mlock", options.mlock, "Keep the weights in memory: none of them is ever paged out");
  command.add_flag(
      "--huge-pages", options.huge_pages,
      "Read the weights into huge pages instead of sharing the file's pages with other processes");
  command.add_flag("--numa-interleave", options.interleave,
                   "Spread memory over all NUMA nodes (docs/memory.md)");
}

std::unique_ptr<Context> make_context(const ComputeOptions& options) {
  if (options.interleave) interleave_memory();
  return start_context(find_forced_kernels(options.isa),
                       options.threads != 0 ? options.threads : usable_cores());
}

const Kernels& find_forced_kernels(const std::string& isa) {
  return *with_hint({ML_E_ISA}, isa.empty() ? "KRAFLA_ISA asks for it" : "--isa asks for it",
                    [&] { return &choose_kernels(isa.c_str()); });
}

std::unique_ptr<Context> start_context(const Kernels& kernels, int threads) {
  return with_hint({ML_E_MEMORY}, "ask for fewer with --threads",
                   [&] { return std::make_unique<Context>(kernels, threads); });
}

LoadedModel load_model(const std::string& name, const ComputeOptions& options, ThreadPool& threads) {
  const ModelFiles files = with_hint({ML_E_IO, ML_E_FORMAT},
                                     "`krafla convert` makes a .mlb of a GGUF file or a Hugging Face folder",
                                     [&] { return find_model_files(name); });
  return LoadedModel(files.mlb, threads,
                     {.check_quants = !options.skip_check,
                      .memory = options.huge_pages ? FileMemory::huge_pages : FileMemory::shared,
                      .lock = options.mlock});
}

std::string tokenizer_path(const std::string& name) {
  return with_hint({ML_E_IO}, "`krafla convert-tokenizer` makes one of a tokenizer.json or a GGUF file",
                   [&] { return find_tokenizer(name); });
}

void add_tokenizer_option(CLI::App& command, std::string& tokenizer) {
  command.add_option("-z,--tokenizer", tokenizer, "The .mlt file; the default is the one beside the model")
      ->check(not_empty);
}

void load_tokenizer(LoadedModel& loaded, const std::string& name) {
  loaded.load_tokenizer(tokenizer_path(name.empty() ? loaded.files.mlt : name));
}

void add_kv_option(CLI::App& command, KvType& kv) {
  static const std::map<std::string, KvType> types = {
      {"f16", KvType::f16}, {"f32", KvType::f32}, {"q8_0", KvType::q8_0}};
  command
      .add_option_function<std::string>(
          "--kv", [&kv](const std::string& type) { kv = types.at(type); },
          "Type of the KV cache; q8_0 takes half of f16's memory; f16")
      ->check(CLI::IsMember(types));
}

void warn_of_nan(std::size_t position, std::int32_t token) {
  std::fprintf(stderr,
               "krafla: warning: the logits at position %zu (token %d) are not all numbers; infinite or NaN "
               "scales in the file do that\n",
               position, token);
}

}  // namespace krafla::cli
