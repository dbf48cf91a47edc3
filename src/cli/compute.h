// Options that every command which runs a model shares.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/context.h"
#include "model/model.h"

namespace krafla::cli {

struct ComputeOptions {
  std::string model;
  std::string isa;
  int threads = 0;  ///< 0: the physical cores this process may use
  bool skip_check = false;
  bool mlock = false, huge_pages = false, interleave = false;
};

/// A check of options that name a file: an empty name is none, and would count as the option not given.
std::string not_empty(const std::string& value);

/// Declares MODEL, -t, --isa, --skip-check and where the weights lie in memory.
void add_compute_options(CLI::App& command, ComputeOptions& options);

/// Declares --isa, --skip-check and where the weights lie in memory.
void add_kernel_options(CLI::App& command, ComputeOptions& options);

/// Threads and kernels as asked for; and the NUMA policy, which counts for all memory from then on.
std::unique_ptr<Context> make_context(const ComputeOptions& options);

/// Opens and checks the .mlb that options.model names.
Model open_model(const ComputeOptions& options, Context& context);

/// Declares --kv; `*kv` starts as f16.
void add_kv_option(CLI::App& command, KvType& kv);

/// Says on standard error that there is a NaN among the logits at this position.
void warn_of_nan(std::size_t position, std::int32_t token);

}  // namespace krafla::cli
