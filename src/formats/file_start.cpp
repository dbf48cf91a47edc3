#include "formats/file_start.h"

#include <algorithm>

namespace krafla {
namespace {

struct Magic {
  std::string_view magic, what;
};
constexpr Magic kMagics[] = {{"MLB1", "a .mlb model"},
                             {"MLT1", "a .mlt tokenizer"},
                             {"MLI1", "a .mli importance matrix"},
                             {"MLL1", "a .mll file of logits"},
                             {"MLS1", "a .mls saved sequence"},
                             {"GGUF", "a GGUF file"}};

}  // namespace

void check_file_start(Bytes file, std::string_view magic, std::size_t header_bytes, std::string_view name) {
  const auto* const wanted =
      std::find_if(std::begin(kMagics), std::end(kMagics), [&](const Magic& m) { return m.magic == magic; });
  if (file.size() < header_bytes)
    fail(ML_E_FORMAT, "{}: the file has {} bytes; the header of {} needs {}", name, file.size(), wanted->what,
         header_bytes);
  if (!starts_with(file, magic)) {
    const auto* const found = std::find_if(std::begin(kMagics), std::end(kMagics),
                                           [&](const Magic& m) { return starts_with(file, m.magic); });
    fail(ML_E_FORMAT, "{}: the magic is {:02x} {:02x} {:02x} {:02x}; {} begins with \"{}\"{}{}", name,
         file[0], file[1], file[2], file[3], wanted->what, magic,
         found == std::end(kMagics) ? "" : "; this is ", found == std::end(kMagics) ? "" : found->what);
  }
  ByteReader in(file, name);
  in.take(magic.size(), "magic");
  const auto version = in.read<std::uint32_t>("version");
  if (version != 1) fail(ML_E_FORMAT, "{}: version is {}; allowed: 1", name, version);
}

}  // namespace krafla
