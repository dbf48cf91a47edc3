// For tests in Python: reads an array of jobs, {"template", "messages", "tools", "documents", "variables",
// "add_generation_prompt", "bos_token", "eos_token", "control"}, from standard input and writes [{"text",
// "control"} or {"error"}, ...]: "control" is a list of control tokens, and those that the prompt becomes.
#include <iostream>

#include "base/error.h"
#include "chat/chat_template.h"
#include "chat_job.h"
#include "control_tokens.h"

int main() {
  using Json = nlohmann::ordered_json;
  const Json jobs = Json::parse(std::cin);
  Json results = Json::array();
  for (const Json& job : jobs) {
    try {
      const krafla::Prompt prompt =
          krafla::ChatTemplate(job["template"].get<std::string>(), krafla::tokens_of(job))
              .render(krafla::input_of(job));
      Json result = {{"text", prompt.text}};
      if (job.contains("control"))
        result["control"] = krafla::ControlTokens(job["control"].get<std::vector<std::string>>()).of(prompt);
      results.push_back(std::move(result));
    } catch (const krafla::Error& e) {
      results.push_back({{"error", e.what()}});
    }
  }
  std::cout << results.dump() << '\n';
}
