// The language, held against Jinja2: tests/data/chat/*.json, made by tests/golden/make_chat.py.
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "chat_job.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, IsWhatJinjaMakesOfIt) {
  std::ifstream in(fmt::format("{}/chat/{}.json", KRAFLA_TEST_DATA, GetParam()));
  const Json golden = Json::parse(in);
  for (const Json& c : golden["cases"]) {
    SCOPED_TRACE(c.dump());
    const Json job = {{"messages", Json::array()}, {"variables", golden["variables"]}};
    try {
      const Prompt prompt = ChatTemplate(c["template"].get<std::string>()).render(input_of(job));
      if (c["text"].is_null())
        ADD_FAILURE() << "renders: " << prompt.text;
      else
        EXPECT_EQ(prompt.text, c["text"].get<std::string>());
    } catch (const Error& e) {
      EXPECT_TRUE(c["text"].is_null()) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with("chat template, line 1: ")) << e.what();
      EXPECT_EQ(e.status(), c["name"] == "raise" ? ML_E_ARG : ML_E_FORMAT);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chat, Golden,
                         testing::Values("statements", "loop", "operators", "filters", "json", "tests",
                                         "methods", "white", "errors"));

}  // namespace
}  // namespace krafla
