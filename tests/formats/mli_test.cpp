#include "formats/mli.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "formats/mlb.h"
#include "test_files.h"

namespace krafla {
namespace {

TEST(Mli, BadFilesGiveTheirStatusAndSayWhy) {
  int seen = 0;
  for (const auto& entry : manifest("bad")) {
    const std::string file = entry["file"];
    if (!file.ends_with(".mli")) continue;
    SCOPED_TRACE(file);
    ++seen;
    const auto [status, message] = outcome([&] {
      const MappedFile mapped(data_path("bad/" + file));
      const Mli mli = parse_mli(mapped.bytes(), file);
      if (!entry.contains("model")) return;
      const MappedFile model(data_path("bad/" + entry["model"].get<std::string>()));
      const MlbHeader header = parse_mlb_header(model.bytes(), "model");
      check_mli_model(mli, header, mlb_stored_flags(header, model.bytes(), "model"), file);
    });
    EXPECT_EQ(status, entry["status"].get<std::string>()) << message;
    for (const std::string mention : entry["mentions"])
      EXPECT_NE(message.find(mention), std::string::npos) << message << "\n" << mention;
  }
  EXPECT_GT(seen, 10);
}

TEST(Mli, WriterGivesTheSameBytes) {
  const TemporaryFolder folder;
  for (const char* file : {"same_q_dim.mli", "own_q_dim.mli"}) {
    const auto bytes = file_bytes(data_path(std::string("good/") + file));
    OutputFile out(folder.file(file));
    write_mli(out, file, parse_mli(bytes, file));
    EXPECT_EQ(file_bytes(folder.file(file)), bytes) << file;
  }
}

TEST(Mli, EveryTruncationIsRefused) {
  const auto whole = file_bytes(data_path("good/own_q_dim.mli"));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Exact cut(Bytes(whole).first(n));
    EXPECT_EQ(outcome([&] { parse_mli(cut.span(), "cut.mli"); }).first, "ML_E_FORMAT") << n;
  }
}

TEST(Mli, ModelMustBeTheOneMeasured) {
  const Mli m = parse_mli(file_bytes(data_path("good/own_q_dim.mli")), "m.mli");
  MlbHeader h;
  h.dim = m.dim;
  h.n_layers = m.n_layers;
  h.hidden_dim = m.hidden_dim;
  h.n_heads = 1;
  h.head_dim = m.q_dim;
  EXPECT_EQ(outcome([&] { check_mli_model(m, h, {}, "m.mli"); }).first, "ML_OK");
  for (std::uint32_t MlbHeader::* field :
       {&MlbHeader::dim, &MlbHeader::n_layers, &MlbHeader::hidden_dim, &MlbHeader::head_dim}) {
    MlbHeader other = h;
    other.*field += 32;
    EXPECT_EQ(outcome([&] { check_mli_model(m, other, {}, "m.mli"); }).first, "ML_E_SHAPE");
  }
}

}  // namespace
}  // namespace krafla
