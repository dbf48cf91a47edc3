// Options that every command which runs a model shares.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/loaded_model.h"
#include "kernels/context.h"

namespace krafla::cli {

struct ComputeOptions {
  std::string model;
  std::string isa;
  int threads = 0;  ///< 0: the physical cores this process may use
  bool skip_check = false;
  bool mlock = false, huge_pages = false, interleave = false;
};

/// A check of options that name a file. An empty name is refused: it would count as the option not given.
std::string not_empty(const std::string& value);

/// Declares MODEL, -t, --isa, --skip-check and where the weights lie in memory.
void add_compute_options(CLI::App& command, ComputeOptions& options);

/// Declares --isa, --skip-check and where the weights lie in memory.
void add_kernel_options(CLI::App& command, ComputeOptions& options);

/// The threads and kernels that the options ask for. Sets the NUMA policy of all memory taken from then on.
std::unique_ptr<Context> make_context(const ComputeOptions& options);

/// The kernels of --isa, or of KRAFLA_ISA where `isa` is empty, else the fastest. ML_E_ISA if they are not
/// here.
const Kernels& find_forced_kernels(const std::string& isa);

/// A pool of so many threads and these kernels.
std::unique_ptr<Context> start_context(const Kernels& kernels, int threads);

/// Opens the model `name` with the options that say how. Errors as LoadedModel's.
LoadedModel load_model(const std::string& name, const ComputeOptions& options, ThreadPool& threads);

/// The .mlt that `name` means, as find_tokenizer().
std::string tokenizer_path(const std::string& name);

/// Declares -z.
void add_tokenizer_option(CLI::App& command, std::string& tokenizer);

/// Opens the tokenizer that -z names; the model's own where `name` is empty.
void load_tokenizer(LoadedModel& loaded, const std::string& name);

/// Declares --kv; `*kv` starts as f16.
void add_kv_option(CLI::App& command, KvType& kv);

/// Says on standard error that there is a NaN among the logits at this position.
void warn_of_nan(std::size_t position, std::int32_t token);

}  // namespace krafla::cli
