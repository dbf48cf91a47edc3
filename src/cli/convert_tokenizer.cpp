// `krafla convert-tokenizer SOURCE [OUT.mlt]`: a tokenizer.json or a GGUF's tokenizer to .mlt and .json.
#include "convert/convert_tokenizer.h"

#include <cstdio>
#include <memory>
#include <string>

#include "base/pluralized.h"
#include "cli/commands.h"

namespace krafla::cli {
namespace {

struct Arguments {
  std::string source, out;
  bool quiet = false;
};

void run(const Arguments& a) {
  const ConvertedTokenizer converted = read_tokenizer(a.source);
  const TokenizerPaths paths = tokenizer_paths(a.source, a.out);
  write_tokenizer(converted, a.source, paths);
  const Mlt& mlt = converted.mlt;
  if (!a.quiet)
    std::fprintf(stderr, "%s: kind %u, flags %u, %s, %s, bos %d, eos %d; beside it %s\n", paths.mlt.c_str(),
                 static_cast<unsigned>(mlt.kind), mlt.flags, pluralized(mlt.tokens.size(), "token").c_str(),
                 pluralized(mlt.merges.size(), "merge").c_str(), mlt.bos, mlt.eos, paths.json.c_str());
  for (const std::string& note : a.quiet ? std::vector<std::string>() : converted.notes)
    std::fprintf(stderr, "  %s\n", note.c_str());
}

}  // namespace

void add_convert_tokenizer(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("convert-tokenizer", "Convert a tokenizer alone to NAME.mlt and NAME.json");
  auto a = std::make_shared<Arguments>();
  command->add_option("SOURCE", a->source, "a checkpoint's folder, its tokenizer.json, or a GGUF file")
      ->required();
  command->add_option("OUT", a->out,
                      "NAME (.mlb, .mlt or .json behind it is not part of it) or a folder; default: SOURCE's "
                      "name, in the current folder");
  command->add_flag("--quiet", a->quiet, "print nothing but errors");
  command->callback([a] { run(*a); });
}

}  // namespace krafla::cli
