#include "cli/commands.h"

namespace krafla::cli {

void add_tokenize(CLI::App& app) { app.add_subcommand("tokenize", "Text to token ids and back"); }

}  // namespace krafla::cli
