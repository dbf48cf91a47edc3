// `krafla SUBCOMMAND ...`. Called by the name ml_run or ml_tok, the binary is that subcommand.
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"

namespace {

constexpr void (*kCommands[])(CLI::App&) = {
    krafla::cli::add_bench, krafla::cli::add_convert,  krafla::cli::add_inspect, krafla::cli::add_logits,
    krafla::cli::add_run,   krafla::cli::add_tokenize, krafla::cli::add_verify,
};

struct Alias {
  const char* name;
  const char* command;
};
constexpr Alias kAliases[] = {{"ml_run", "run"}, {"ml_tok", "tokenize"}};

/// The arguments after the program's name, with the subcommand put first when the name implies one.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  for (const Alias& alias : kAliases)
    if (name == alias.name) args.insert(args.begin(), alias.command);
  return args;
}

int run(int argc, char** argv) {
  CLI::App app("Krafla runs open-weight language models on the CPU.", "krafla");
  app.require_subcommand(1);
  app.set_version_flag("--version", "krafla " KRAFLA_VERSION);
  for (auto* add : kCommands) add(app);
  std::vector<std::string> args = arguments(argc, argv);
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // the order CLI11 wants
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : ml_exit_code(ML_E_ARG);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const krafla::Error& e) {
    std::fprintf(stderr, "krafla: %s: %s\n", ml_status_name(e.status()), e.what());
    return ml_exit_code(e.status());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "krafla: %s: not enough memory\n", ml_status_name(ML_E_MEMORY));
    return ml_exit_code(ML_E_MEMORY);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "krafla: %s: %s\n", ml_status_name(ML_E_ERROR), e.what());
    return ml_exit_code(ML_E_ERROR);
  }
}
