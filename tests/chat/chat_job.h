// The conversations of tests/data/chat and of tests in Python, as JSON.
#pragma once

#include "chat/chat_template.h"

namespace krafla {

inline ChatInput input_of(const nlohmann::ordered_json& job) {
  ChatInput input;
  input.messages = job["messages"];
  if (job.contains("tools")) input.tools = job["tools"];
  if (job.contains("documents")) input.documents = job["documents"];
  if (job.contains("variables")) input.variables = job["variables"];
  input.add_generation_prompt = job.value("add_generation_prompt", false);
  std::tm now{};
  now.tm_year = 124, now.tm_mon = 6, now.tm_mday = 9, now.tm_hour = 15, now.tm_min = 4, now.tm_sec = 5,
  now.tm_wday = 2, now.tm_yday = 190;
  input.now = now;  // Tuesday, 9 July 2024, 15:04:05
  return input;
}

inline SpecialTokens tokens_of(const nlohmann::ordered_json& job) {
  return {job.value("bos_token", ""), job.value("eos_token", "")};
}

}  // namespace krafla
