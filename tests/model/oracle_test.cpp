// The engine against tools/ref_forward.py --contract, bit for bit: every model of tests/data/models, every prompt, both KV types,
// however the prompt is cut, whoever shares the batch, on every instruction set and number of threads.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/digest.h"

namespace krafla {
namespace {

using Json = nlohmann::json;

const std::string kModels = KRAFLA_TEST_DATA "/models/";

Json oracle() {
  std::ifstream in(kModels + "oracle.json");
  return Json::parse(in);
}

/// The models that the engine runs.
std::vector<std::string> model_files() {
  std::vector<std::string> files;
  const Json all = oracle();
  for (const auto& [file, entry] : all.items())
    if (entry.value("needs", "") != "linear") files.push_back(file);
  return files;
}

std::string text(const Json& value) { return value.get<std::string>(); }

std::string hex(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name)
    if (find_kernels(*name) != nullptr) names.push_back(*name);
  return names;
}

std::string run(const Model& model, Context& context, const Json& prompt, std::size_t chunk) {
  Digest digest;
  all_logits(model, context, prompt["kv"] == "f32" ? KvType::f32 : KvType::f16, prompt["ids"].get<std::vector<std::int32_t>>(), chunk,
             [&](std::span<const float> row) { digest.add(row); });
  return hex(digest.value());
}

class Oracle : public testing::TestWithParam<std::string> {};

TEST_P(Oracle, EveryPromptEqualsTheOracle) {
  const Json entry = oracle()[GetParam()];
  for (const std::string& isa : isas()) {
    Context context(*find_kernels(isa.c_str()), 2);
    const Model model(kModels + GetParam(), context.threads);
    EXPECT_EQ(hex(verify_digest(model, context)), text(entry["verify"])) << isa;
    for (const Json& prompt : entry["prompts"])
      EXPECT_EQ(run(model, context, prompt, 64), text(prompt["fnv1a64"])) << isa << " " << prompt["kv"];
  }
}

TEST_P(Oracle, ThreadsAndChunksDoNotMatter) {
  const Json entry = oracle()[GetParam()];
  const Json& prompt = entry["prompts"].back();
  for (const int threads : {1, 3, 8}) {
    Context context(choose_kernels(nullptr), threads);
    const Model model(kModels + GetParam(), context.threads);
    for (const std::size_t chunk : {1u, 3u, 7u, 1000u})
      EXPECT_EQ(run(model, context, prompt, chunk), text(prompt["fnv1a64"])) << threads << " " << chunk;
  }
}

TEST_P(Oracle, BatchMatesDoNotMatter) {
  const Json entry = oracle()[GetParam()];
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  PagePool pool(KvLayout(model.mlb(), KvType::f16));
  // All f16 prompts side by side, each advancing by its own stride, so that batches mix prefill chunks and single steps.
  struct Stream {
    Json prompt;
    std::vector<std::int32_t> ids;
    std::size_t stride;
    Sequence sequence;
    std::size_t next = 0;
    Digest digest;
  };
  std::vector<Stream> streams;
  for (const std::size_t stride : {1u, 5u, 70u})
    for (const Json& prompt : entry["prompts"])
      if (prompt["kv"] == "f16") streams.push_back({prompt, prompt["ids"], stride, Sequence(pool), 0, {}});
  Batch batch;
  for (;;) {
    std::vector<BatchRow> rows;
    std::vector<Stream*> owners;
    for (Stream& stream : streams)
      for (std::size_t i = 0; i < stream.stride && stream.next < stream.ids.size(); ++i) {
        rows.push_back({&stream.sequence, stream.ids[stream.next++], true});
        owners.push_back(&stream);
      }
    if (rows.empty()) break;
    const std::size_t vocab = model.header().vocab;
    std::vector<float> logits(rows.size() * vocab);
    forward(model, context, batch, rows);
    classify(model, context, batch, 0, rows.size(), logits.data());
    for (std::size_t i = 0; i < rows.size(); ++i) owners[i]->digest.add({logits.data() + i * vocab, vocab});
  }
  for (const Stream& stream : streams) EXPECT_EQ(hex(stream.digest.value()), text(stream.prompt["fnv1a64"])) << stream.stride;
}

TEST_P(Oracle, ForkedAndRewoundSequencesAreExact) {
  const Json prompt = oracle()[GetParam()]["prompts"][0];
  const auto ids = prompt["ids"].get<std::vector<std::int32_t>>();
  const KvType kv = prompt["kv"] == "f32" ? KvType::f32 : KvType::f16;
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  PagePool pool(KvLayout(model.mlb(), kv));
  const std::size_t vocab = model.header().vocab, half = ids.size() / 2;
  Batch batch;
  std::vector<float> logits(ids.size() * vocab);
  const auto feed = [&](Sequence& sequence, std::size_t from, std::size_t to, std::int32_t other, Digest* digest) {
    std::vector<BatchRow> rows;
    for (std::size_t i = from; i < to; ++i) rows.push_back({&sequence, other >= 0 ? other : ids[i], true});
    forward(model, context, batch, rows);
    classify(model, context, batch, 0, rows.size(), logits.data());
    if (digest != nullptr) digest->add({logits.data(), rows.size() * vocab});
  };
  Digest through_fork, through_rewind;
  Sequence first(pool);
  feed(first, 0, half, -1, &through_fork);
  through_rewind = through_fork;
  Sequence second = first;
  feed(first, half, half + 1, 0, nullptr);  // writes into a shared page: must not be seen by the copy
  feed(second, half, ids.size(), -1, &through_fork);
  EXPECT_EQ(hex(through_fork.value()), text(prompt["fnv1a64"]));
  first.rewind(half);
  feed(first, half, ids.size(), -1, &through_rewind);
  EXPECT_EQ(hex(through_rewind.value()), text(prompt["fnv1a64"]));
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle, testing::ValuesIn(model_files()), [](const auto& file) {
  std::string name = file.param.substr(0, file.param.find('.'));
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace krafla
