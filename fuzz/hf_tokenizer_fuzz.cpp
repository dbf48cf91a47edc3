// Any bytes as a tokenizer.json: an error, or a tokenizer that can be written, read again and used.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "convert/hf_tokenizer.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  krafla::HfTokenizer source;
  source.file = "tokenizer.json";
  source.tokenizer.assign(reinterpret_cast<const char*>(data), size);
  krafla::ConvertedTokenizer converted;
  try {
    converted = krafla::convert_hf_tokenizer(source);
  } catch (const krafla::Error&) {
    return 0;
  }
  const std::string bytes =
      krafla::mlt_bytes("t.mlt", converted.mlt);  // what the converter gives is never refused
  const krafla::Bytes file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const krafla::Tokenizer tokenizer(krafla::parse_mlt(file, "t.mlt"));
  tokenizer.decode(tokenizer.encode(source.tokenizer.substr(0, 200)));
  return 0;
}
