// The subcommands of `krafla`, one file each: add_NAME() declares the subcommand's options on `app` and a
// callback that runs it. Callbacks throw Error (or CLI::ValidationError for usage); main() prints it and
// turns it into the exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace krafla::cli {

void add_bench(CLI::App& app);
void add_chat(CLI::App& app);
void add_compare(CLI::App& app);
void add_convert(CLI::App& app);
void add_convert_tokenizer(CLI::App& app);
void add_cpu(CLI::App& app);
void add_imatrix(CLI::App& app);
void add_inspect(CLI::App& app);
void add_logits(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_run(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_verify(CLI::App& app);

}  // namespace krafla::cli
