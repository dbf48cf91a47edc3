// Options that every command which runs a model shares.
#pragma once

#include <CLI/CLI.hpp>
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
};

/// Declares MODEL, -t, --isa and --skip-check.
void add_compute_options(CLI::App& command, ComputeOptions& options);

/// Threads and kernels as asked for.
std::unique_ptr<Context> make_context(const ComputeOptions& options);

/// Opens and checks the .mlb that options.model names.
Model open_model(const ComputeOptions& options, Context& context);

/// Declares --kv; `*kv` starts as f16.
void add_kv_option(CLI::App& command, KvType& kv);

}  // namespace krafla::cli
