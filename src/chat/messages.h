// Conversations as they come from outside, in the form of OpenAI's clients and of `/save`: what is wrong with
// one, and contents in parts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace krafla {

/// What is wrong with the messages of a conversation, by its place ("messages[2].content[0].type is ..."),
/// the value found and what is allowed; empty: nothing. They are an array of objects with a "role" and a
/// "content", which is a text, null, missing or an array of parts
/// {"type": "text", "text": ...}.
std::string find_fault(const nlohmann::ordered_json& messages);

/// Makes one text of each content that is in parts, with a line end between two, for templates that know no
/// parts. Of faultless messages.
void join_parts(nlohmann::ordered_json& messages);

}  // namespace krafla
