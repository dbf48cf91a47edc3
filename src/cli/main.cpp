// `krafla SUBCOMMAND ...`. Called by the name ml_run, ml_tok or ml_bench, the binary is that subcommand.
#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"

namespace {

constexpr void (*kCommands[])(CLI::App&) = {
    krafla::cli::add_bench,
    krafla::cli::add_chat,
    krafla::cli::add_compare,
    krafla::cli::add_convert,
    krafla::cli::add_convert_tokenizer,
    krafla::cli::add_cpu,
    krafla::cli::add_imatrix,
    krafla::cli::add_inspect,
    krafla::cli::add_logits,
    krafla::cli::add_perplexity,
    krafla::cli::add_run,
    krafla::cli::add_tokenize,
    krafla::cli::add_verify,
};

struct Alias {
  const char* name;
  const char* command;
};
constexpr Alias kAliases[] = {{"ml_run", "run"}, {"ml_tok", "tokenize"}, {"ml_bench", "bench"}};

/// The arguments after the program's name, with the subcommand put first when the name implies one.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  for (const Alias& alias : kAliases)
    if (name == alias.name) args.insert(args.begin(), alias.command);
  return args;
}

/// The one line a program ends with: control characters, which may come from a path, are shown as what they
/// are.
int report(ml_status status, std::string_view message) {
  std::string line = fmt::format("krafla: {}: ", ml_status_name(status));
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  std::fprintf(stderr, "%s\n", line.c_str());
  return ml_exit_code(status);
}

/// An unknown command is named, with the known ones.
void check_command(const CLI::App& app, const std::vector<std::string>& args) {
  if (args.empty() || args[0].starts_with('-')) return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == args[0]) return;
    known.push_back(command->get_name());
  }
  krafla::fail(ML_E_ARG, "{}: there is no such command; there are {}", args[0], fmt::join(known, ", "));
}

int run(int argc, char** argv) {
  CLI::App app("Krafla runs open-weight language models on the CPU.", "krafla");
  app.require_subcommand(1);
  app.set_version_flag("--version", "krafla " KRAFLA_VERSION);
  for (auto* add : kCommands) add(app);
  const std::vector<std::string> args = arguments(argc, argv);
  check_command(app, args);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // the order CLI11 wants
  } catch (const CLI::Success& e) {
    app.exit(e);                          // --help and --version
  } catch (const CLI::RuntimeError& e) {  // a command ends with a code of its own
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return report(ML_E_ARG, fmt::format("{} (see --help)", e.what()));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    krafla::fail(ML_E_IO, "standard output cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A closed standard descriptor would be given to the first file that is opened, and messages would go into
  // it. Writing to one opened for reading still fails.
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) < 0) return 1;
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an error of the write, which is reported
  try {
    return run(argc, argv);
  } catch (const krafla::Error& e) {
    return report(e.status(), e.what());
  } catch (const std::bad_alloc&) {
    return report(ML_E_MEMORY, "not enough memory");
  } catch (const std::exception& e) {
    return report(ML_E_ERROR, e.what());
  }
}
