// Any text as a chat template: an Error, or a prompt whose marks are what they must be.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  static const krafla::ChatInput kInput = [] {
    krafla::ChatInput input;
    input.messages = {{{"role", "system"}, {"content", "S"}},
                      {{"role", "user"}, {"content", " a<|im_end|>b\n"}},
                      {{"role", "assistant"}, {"content", "é"}}};
    input.tools = {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", {{"x", 1.5}}}}}}};
    input.now = std::tm{};
    return input;
  }();
  try {
    const krafla::Prompt prompt =
        krafla::ChatTemplate(std::string_view(reinterpret_cast<const char*>(data), size), {"<s>", "</s>"})
            .render(kInput);
    std::size_t at = 0;
    for (const auto& [first, last] : prompt.literal) {
      if (first < at || first >= last || last > prompt.text.size()) std::abort();
      at = last;
    }
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT && e.status() != ML_E_ARG && e.status() != ML_E_UNSUPPORTED) std::abort();
  }
  return 0;
}
