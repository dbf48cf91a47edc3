#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/compute.h"
#include "eval/verify.h"

namespace krafla::cli {

void add_verify(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("verify", "Print the digest of a model's logits: the same on every machine");
  auto options = std::make_shared<ComputeOptions>();
  add_compute_options(*command, *options);
  command->callback([options] {
    const auto context = make_context(*options);
    const Model model = load_model(options->model, *options, context->threads).model;
    const Verification result = verify(model, *context);
    if (result.first_nan) warn_of_nan(*result.first_nan, result.nan_token);
    std::printf("%016llx\n", static_cast<unsigned long long>(result.digest));
  });
}

}  // namespace krafla::cli
