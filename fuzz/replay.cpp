// Runs a fuzz target over the files of its corpus folders: how every past finding stays a test.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const std::vector<char>& input) {
  // Memory of exactly this size, so that AddressSanitizer sees every read beyond it.
  const auto exact = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  replay({});
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      std::fprintf(stderr, "%s\n", entry.path().c_str());  // the last line names the culprit
      replay({std::istreambuf_iterator<char>(in), {}});
      ++files;
    }
  std::fprintf(stderr, "%d files\n", files);
  return files > 0 ? 0 : 1;  // an empty corpus is a mistake
}
