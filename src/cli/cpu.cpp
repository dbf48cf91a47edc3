// `krafla cpu`: what this machine has and what of it is used, as text or JSON.
#include "base/cpu.h"

#include <fmt/format.h>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/compute.h"

namespace krafla::cli {
namespace {

struct Arguments {
  std::string isa;
  bool json = false;
};

std::string size_text(std::size_t bytes) {
  return bytes % (1u << 20) == 0 ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} KB", bytes >> 10);
}

/// L1d, L1i, L2 ...
std::string cache_name(const CpuCache& cache) {
  return fmt::format("L{}{}", cache.level,
                     cache.type == "Data"          ? "d"
                     : cache.type == "Instruction" ? "i"
                                                   : "");
}

void run(const Arguments& a) {
  const Kernels& used = find_forced_kernels(a.isa);
  const CpuCores cores = cpu_cores();
  nlohmann::ordered_json json = {{"model", cpu_model()}, {"isa", used.name}};
  std::string here, missing, caches;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const bool is_here = find_kernels(*name) != nullptr;
    (is_here ? here : missing) += std::string(" ") + *name;
    json["isas"].push_back({{"name", *name}, {"here", is_here}});
  }
  json["cpus"] = cores.cpus;
  json["cores"] = cores.cores;
  json["quota"] = cores.quota > 0 ? nlohmann::ordered_json(cores.quota) : nlohmann::ordered_json();
  json["threads"] = usable_cores();
  json["caches"] = nlohmann::ordered_json::array();
  for (const CpuCache& c : cpu_caches()) {
    json["caches"].push_back({{"name", cache_name(c)}, {"bytes", c.bytes}, {"shared_by", c.shared_by}});
    caches += fmt::format("{} {} {}{}", caches.empty() ? "" : ",", cache_name(c), size_text(c.bytes),
                          c.shared_by > 1 ? fmt::format(" for {} CPUs", c.shared_by) : "");
  }
  if (a.json) {
    std::printf("%s\n", json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  const auto line = [](const char* what, const std::string& text) {
    std::printf("%-18s %s\n", what, text.c_str());
  };
  line("processor", json["model"]);
  line("instruction sets", here.substr(1) + " (slowest first)");
  if (!missing.empty()) line("not here", missing.substr(1));
  line("used", used.name);
  line("threads",
       fmt::format("{} by default: {} cores of {} logical CPUs, {}", usable_cores(), cores.cores, cores.cpus,
                   cores.quota > 0 ? fmt::format("a quota of {:g} CPUs", cores.quota) : "no quota"));
  if (!caches.empty()) line("caches", caches.substr(1));
}

}  // namespace

void add_cpu(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "cpu", "Show the instruction sets, cores and caches of this machine, and what is used");
  auto a = std::make_shared<Arguments>();
  command->add_option("--isa", a->isa,
                      "Force an instruction set; exit code 3 if it is not there. Also KRAFLA_ISA");
  command->add_flag("--json", a->json, "Print JSON");
  command->callback([a] { run(*a); });
}

}  // namespace krafla::cli
