// Any bytes as a .mlt: an Error, or a tokenizer that keeps what the format promises.
#include <cstdint>
#include <cstdlib>

#include "formats/mlt.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const krafla::Mlt mlt = krafla::parse_mlt({data, size}, "fuzz.mlt");
    std::size_t bytes = 32 + mlt.trailing + 12 * mlt.merges.size();
    for (const krafla::MltToken& token : mlt.tokens) {
      bytes += 5 + token.bytes.size();
      for (const char c : token.bytes) bytes += c == '\0' ? 0u : 0u;  // reads every byte
    }
    for (const krafla::MltMerge& m : mlt.merges)
      if (mlt.tokens.at(m.left).bytes.size() + mlt.tokens.at(m.right).bytes.size() !=
          mlt.tokens.at(m.merged).bytes.size())
        std::abort();
    if (bytes != size || mlt.bos < -1 || mlt.bos >= static_cast<std::int64_t>(mlt.tokens.size()))
      std::abort();
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT) std::abort();
  }
  return 0;
}
