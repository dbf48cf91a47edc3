// For tests in Python: reads an array of jobs, {"template", "messages", "tools", "documents", "variables", "add_generation_prompt",
// "bos_token", "eos_token", "now"}, from standard input and writes [{"text"} or {"error"}, ...].
#include <iostream>

#include "base/error.h"
#include "chat/chat_template.h"
#include "chat_job.h"

int main() {
  using Json = nlohmann::ordered_json;
  const Json jobs = Json::parse(std::cin);
  Json results = Json::array();
  for (const Json& job : jobs) {
    try {
      results.push_back({{"text", krafla::ChatTemplate(job["template"].get<std::string>()).render(krafla::input_of(job)).text}});
    } catch (const krafla::Error& e) {
      results.push_back({{"error", e.what()}});
    }
  }
  std::cout << results.dump() << '\n';
}
