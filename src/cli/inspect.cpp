#include "cli/commands.h"

namespace krafla::cli {

void add_inspect(CLI::App& app) { app.add_subcommand("inspect", "Show what a .mlb, .mlt or .mli file holds"); }

}  // namespace krafla::cli
