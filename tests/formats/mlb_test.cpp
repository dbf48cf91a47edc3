#include "formats/mlb.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/mapped_file.h"
#include "formats/mlb_writer.h"
#include "test_files.h"

namespace krafla {
namespace {

TEST(Mlb, GoodFilesGiveTheirHeaderAndArrays) {
  for (const auto& entry : manifest("good")) {
    const std::string file = entry["file"];
    if (!file.ends_with(".mlb")) continue;
    SCOPED_TRACE(file);
    const MappedFile mapped(data_path("good/" + file));
    const Mlb mlb = parse_mlb(mapped.bytes(), file);
    EXPECT_EQ(mlb.trailing, entry["trailing"].get<std::uint64_t>());
    for (const MlbField& field : mlb_fields()) {
      if (!entry["header"].contains(field.name)) continue;
      if (entry["header"][field.name].is_string())  // NaN and inf, which JSON has no numbers for
        EXPECT_EQ(mlb_field_text(mlb.header, field), entry["header"][field.name].get<std::string>())
            << field.name;
      else if (field.is_float)
        EXPECT_EQ(std::stof(mlb_field_text(mlb.header, field)), entry["header"][field.name].get<float>())
            << field.name;
      else
        EXPECT_EQ(mlb_field_text(mlb.header, field), entry["header"][field.name].dump()) << field.name;
    }
    const auto arrays = mlb_layout(mlb.header, mlb_stored_flags(mlb.header, mapped.bytes(), file),
                                   mapped.bytes().size(), file);
    ASSERT_EQ(arrays.size(), entry["arrays"].size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const auto& want = entry["arrays"][i];
      EXPECT_EQ(arrays[i].name(), want[0].get<std::string>());
      EXPECT_EQ(arrays[i].rows, want[2].get<std::uint64_t>());
      EXPECT_EQ(arrays[i].cols, want[3].get<std::uint64_t>());
      EXPECT_EQ(arrays[i].offset, want[4].get<std::uint64_t>());
      EXPECT_EQ(arrays[i].d_offset, want[5].is_null() ? 0 : want[5].get<std::uint64_t>());
    }
  }
}

TEST(Mlb, BadFilesGiveTheirStatusAndSayWhy) {
  for (const auto& entry : manifest("bad")) {
    const std::string file = entry["file"];
    if (!file.ends_with(".mlb")) continue;
    SCOPED_TRACE(file);
    const auto [status, message] = outcome([&] {
      const MappedFile mapped(data_path("bad/" + file));
      parse_mlb(mapped.bytes(), file);
    });
    EXPECT_EQ(status, entry["status"].get<std::string>()) << message;
    for (const std::string mention : entry["mentions"])
      EXPECT_NE(message.find(mention), std::string::npos) << message << "\n" << mention;
    EXPECT_NE(message.find(file), std::string::npos) << message;
  }
}

/// Hands every array of `file` to a writer, last first, matrices in two parts.
void rewrite(Bytes file, const std::string& name, const std::string& to) {
  const Mlb mlb = parse_mlb(file, name);
  const auto flags = mlb_stored_flags(mlb.header, file, name);
  const auto source = mlb_layout(mlb.header, flags, file.size(), name);
  MlbWriter writer(to, mlb.header, flags);
  for (std::size_t i = writer.arrays().size(); i-- > 0;) {
    const MlbArray& a = writer.arrays()[i];
    if (a.kind == MlbKind::flags) continue;
    const auto from =
        std::find_if(source.begin(), source.end(), [&](const MlbArray& s) { return s.name() == a.name(); });
    ASSERT_NE(from, source.end());
    if (a.kind == MlbKind::f32) {
      writer.write_floats(i, {reinterpret_cast<const float*>(file.data() + from->offset),
                              static_cast<std::size_t>(from->size / 4)});
      continue;
    }
    const std::uint64_t half = a.rows / 2;
    for (const auto& [row, rows] : {std::pair{half, a.rows - half}, std::pair{std::uint64_t{0}, half}})
      writer.write_rows(i, row, rows,
                        file.subspan(from->offset + row * (a.size / a.rows), rows * (a.size / a.rows)),
                        file.subspan(from->d_offset + row * (a.d_size / a.rows), rows * (a.d_size / a.rows)));
  }
  writer.commit();
}

TEST(Mlb, TheTableSaysWhatATensorIs) {
  for (const MlbTensor& t : mlb_tensors()) {
    EXPECT_EQ(find_mlb_tensor(t.name), &t) << t.name;  // no name twice
    const bool matrix = std::holds_alternative<Matrix MlbLayer::*>(t.view);
    EXPECT_EQ(t.slot.has_value(), matrix) << t.name;
    EXPECT_EQ(
        t.in_layer() || t.q8_class == kClassEmb || t.q8_class == kClassCls || t.kind != MlbKind::quantized,
        true)
        << t.name;
  }
  EXPECT_EQ(find_mlb_tensor("wx"), nullptr);
  const MlbTensor& wg = *find_mlb_tensor("wg");
  EXPECT_EQ(std::get<Matrix MlbLayer::*>(wg.view), &MlbLayer::wg);
  EXPECT_EQ(wg.q8_class, kClassQk);
  EXPECT_EQ(wg.slot, MliSlot::qkv);
  EXPECT_FALSE(wg.rotated);
  EXPECT_TRUE(find_mlb_tensor("wq")->rotated);
  EXPECT_EQ(find_mlb_tensor("lb")->q8_class, kClassNone);
}

TEST(Mlb, WriterGivesTheSameBytes) {
  const TemporaryFolder folder;
  int canonical = 0;
  for (const auto& entry : manifest("good")) {
    const std::string file = entry["file"];
    if (!file.ends_with(".mlb")) continue;
    SCOPED_TRACE(file);
    const MappedFile mapped(data_path("good/" + file));
    const std::string copy = folder.file("copy.mlb");
    ASSERT_NO_FATAL_FAILURE(rewrite(mapped.bytes(), file, copy));
    const auto written = file_bytes(copy);
    EXPECT_TRUE(written == file_bytes(data_path("good/" + file)) || !entry.value("canonical", false));
    canonical += entry.value("canonical", false);
    rewrite(written, "copy.mlb", folder.file("again.mlb"));  // the canonical form is a fixed point
    EXPECT_EQ(file_bytes(folder.file("again.mlb")), written);
  }
  EXPECT_GT(canonical, 20);
}

TEST(Mlb, EveryTruncationIsRefused) {
  const auto whole = file_bytes(data_path("good/q4_f32.mlb"));
  const MlbHeader header = parse_mlb_header(whole, "x");
  const std::size_t end = static_cast<std::size_t>(mlb_layout(header, {}, whole.size(), "x").back().end());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Exact cut(Bytes(whole).first(n));
    const auto [status, message] = outcome([&] { parse_mlb(cut.span(), "cut.mlb"); });
    EXPECT_EQ(status, n < end ? "ML_E_FORMAT" : "ML_OK") << n << " " << message;
  }
}

TEST(Mlb, BitFlipsNeverCrash) {
  for (const char* file : {"good/q4_f32.mlb", "good/q8_f32.mlb"}) {
    const auto whole = file_bytes(data_path(file));
    const Exact copy(whole);
    auto* bytes = const_cast<std::uint8_t*>(copy.span().data());
    for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(whole.size(), 700); ++bit) {
      bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
      const auto [status, message] = outcome([&] { parse_mlb(copy.span(), file); });
      EXPECT_TRUE(status == "ML_OK" || status == "ML_E_FORMAT" || status == "ML_E_SHAPE") << status;
      bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    }
  }
}

TEST(Mlb, FindsMinus128AnywhereAndFirst) {
  for (const std::size_t n : {1u, 31u, 4095u, 4096u, 4097u, 10000u})
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      std::vector<std::uint8_t> q(n, 0x81);
      EXPECT_EQ(find_minus_128(q), n);
      q[at] = 0x80;
      q[n - 1] = 0x80;
      EXPECT_EQ(find_minus_128(q), at);
    }
  EXPECT_EQ(find_minus_128({}), 0u);
}

TEST(Mlb, ACallerMayScanTheQ8SpansItself) {
  int scanned = 0;
  for (const auto& entry : manifest("bad")) {
    const std::string file = entry["file"];
    const auto bytes = file_bytes(data_path("bad/" + file));
    const auto whole = outcome([&] { parse_mlb(bytes, file); });
    if (!file.ends_with(".mlb") || whole.second.find("quant is -128") == std::string::npos) continue;
    const auto parts = outcome([&] {
      const Mlb mlb = parse_mlb(bytes, file, {.check_quants = false});
      for (const Q8Span& span : q8_spans(mlb)) {
        const std::size_t at = find_minus_128(span.q);
        if (at < span.q.size()) fail_minus_128(span, at, file);
      }
    });
    EXPECT_EQ(parts, whole);
    ++scanned;
  }
  EXPECT_GT(scanned, 0);
}

TEST(Mlb, ScanSpeed) {
  const std::vector<std::uint8_t> q(std::size_t{256} << 20, 0x7f);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(find_minus_128(q), q.size());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("GB_per_s", std::to_string(static_cast<double>(q.size()) / seconds / 1e9));
  std::printf("find_minus_128: %.1f GB/s\n", static_cast<double>(q.size()) / seconds / 1e9);
}

}  // namespace
}  // namespace krafla
