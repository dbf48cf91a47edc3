#include "chat/parse_answer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace krafla {
namespace {

using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;

/// Neighbours of a kind as one: a parser may cut them anywhere.
void add(Parts& all, const Parts& more) {
  for (const AnswerPart& part : more)
    if (!all.empty() && all.back().kind == part.kind && part.kind != Kind::kToolCall)
      all.back().text += part.text;
    else
      all.push_back(part);
}

std::string joined(const Parts& parts) {
  std::string text;
  for (const AnswerPart& part : parts) text += part.text;
  return text;
}

std::string shown(const Parts& parts) {
  std::string text;
  for (const AnswerPart& part : parts) {
    if (part.kind == Kind::kToolCall) text += "CALL " + part.name + part.arguments + ";";
    if (part.kind == Kind::kText) text += "TEXT " + part.text + ";";
    if (part.kind == Kind::kReasoning) text += "THINK " + part.text + ";";
  }
  return text;
}

/// Pieces end where `cut` says after how many bytes.
template <class Cut>
Parts parse(const AnswerStyle& style, std::string_view answer, Cut cut) {
  AnswerParser parser(style);
  Parts parts;
  while (!answer.empty()) {
    const std::size_t size = std::min<std::size_t>(cut(), answer.size());
    add(parts, parser.feed(answer.substr(0, size)));
    answer.remove_prefix(size);
  }
  add(parts, parser.finish());
  return parts;
}

/// The same parts whatever the pieces, and no byte lost.
std::string parse_all_ways(const AnswerStyle& style, const std::string& answer) {
  const Parts whole = parse(style, answer, [&] { return answer.size(); });
  EXPECT_EQ(joined(whole), answer);
  for (std::size_t size = 1; size <= 24; ++size) {
    const Parts parts = parse(style, answer, [&] { return size; });
    EXPECT_EQ(joined(parts), answer) << size;
    EXPECT_EQ(shown(parts), shown(whole)) << size;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(shown(parse(style, answer, [&] { return 1 + random() % 9; })), shown(whole));
  return shown(whole);
}

AnswerStyle style(ToolFormat tools, bool opened = false) { return {"<think>", "</think>", opened, tools}; }

TEST(ParseAnswer, Reasoning) {
  const AnswerStyle closed = style(ToolFormat::kNone), opened = style(ToolFormat::kNone, true);
  EXPECT_EQ(parse_all_ways(closed, "<think>\nhm \n\nso\n</think>\n\nHello <b>\n"),
            "THINK hm \n\nso;TEXT Hello <b>\n;");
  EXPECT_EQ(parse_all_ways(opened, "hm\n</think>\nHello"), "THINK hm;TEXT Hello;");
  EXPECT_EQ(parse_all_ways(opened, "\n</think>\nHello"), "TEXT Hello;");
  EXPECT_EQ(parse_all_ways(opened, "never done </thin"), "THINK never done </thin;");
  EXPECT_EQ(parse_all_ways(closed, "no reasoning </think> here <thin"),
            "TEXT no reasoning </think> here <thin;");
  EXPECT_EQ(parse_all_ways(closed, "<think></think>"), "");
  EXPECT_EQ(parse_all_ways(closed, "A <think>b</think> C <think>d"), "TEXT A;THINK b;TEXT C;THINK d;");
  EXPECT_EQ(parse_all_ways({}, "<think>x</think>"), "TEXT <think>x</think>;");
}

TEST(ParseAnswer, Hermes) {
  const AnswerStyle s = style(ToolFormat::kHermes);
  EXPECT_EQ(
      parse_all_ways(
          s,
          "<think>a</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": "
          "[\"é\", null]}}\n"
          "</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":\"{\\\"x\\\": 2}\"}</tool_call>\nDone"),
      "THINK a;TEXT Let me see.;CALL f{\"b\":1,\"a\":[\"é\",null]};CALL g{\"x\":2};TEXT Done;");
  EXPECT_EQ(parse_all_ways(s, "<tool_call>{\"name\": \"now\"}</tool_call>"), "CALL now{};");
  // Not calls: invalid JSON, no name, arguments of another type than an object, not closed.
  for (const std::string broken :
       {"<tool_call>{\"name\": \"f\", </tool_call> x", "<tool_call>[]</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "a <tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>", " <tool_call>\n{\"name\": \"f\"}",
        "<tool_call>", "<tool_call></tool_call>", "<tool_call>\xff</tool_call>"})
    EXPECT_EQ(parse_all_ways(s, broken), "TEXT " + broken + ";");
  EXPECT_EQ(parse_all_ways(s, "<tool_call>oh <tool_call>{\"name\": \"f\"}</tool_call>"),
            "TEXT <tool_call>oh;CALL f{};");
  EXPECT_EQ(parse_all_ways(s, "<think><tool_call>{\"name\": \"f\"}</tool_call></think>x"),
            "THINK <tool_call>{\"name\": \"f\"}</tool_call>;TEXT x;");
}

TEST(ParseAnswer, Xml) {
  const AnswerStyle s = style(ToolFormat::kXml, true);
  EXPECT_EQ(
      parse_all_ways(
          s,
          "why\n</think>\n\n<tool_call>\n<function=f>\n<parameter=code>\ndef x():\n  return "
          "\"<a>\"\n</parameter>\n<parameter=n>\n12\n"
          "</parameter>\n<parameter=o>\n{\"k\": "
          "[1]}\n</parameter>\n</function>\n</tool_call>\n<tool_call><function=g></function></tool_call>"),
      "THINK why;CALL f{\"code\":\"def x():\\n  return \\\"<a>\\\"\",\"n\":12,\"o\":{\"k\":[1]}};CALL g{};");
  EXPECT_EQ(
      parse_all_ways(style(ToolFormat::kXml), "<tool_call><function=f><parameter=x>1</function></tool_call>"),
      "TEXT <tool_call><function=f><parameter=x>1</function></tool_call>;");
}

TEST(ParseAnswer, Llama3) {
  const AnswerStyle s = style(ToolFormat::kLlama3);
  EXPECT_EQ(parse_all_ways(s, "\n{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}"), "CALL f{\"a\":\"}\"};");
  EXPECT_EQ(parse_all_ways(s, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}"), "CALL f{};");
  EXPECT_EQ(parse_all_ways(s, "{\"name\": \"Anna\", \"age\": 3}"), "TEXT {\"name\": \"Anna\", \"age\": 3};");
  EXPECT_EQ(parse_all_ways(s, "A {\"name\": \"f\", \"parameters\": {}}"),
            "TEXT A {\"name\": \"f\", \"parameters\": {}};");
  EXPECT_EQ(parse_all_ways(s, "<|python_tag|>print(1)\n"), "TEXT <|python_tag|>print(1)\n;");
}

TEST(ParseAnswer, Mistral) {
  const AnswerStyle s = style(ToolFormat::kMistral);
  EXPECT_EQ(parse_all_ways(s,
                           "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
                           "\"arguments\": {}}]"),
            "CALL f{\"a\":1};CALL g{};");
  EXPECT_EQ(parse_all_ways(s, "Well.[TOOL_CALLS]f[ARGS]{\"a\": \"[\"}[TOOL_CALLS]g[CALL_ID]abc123[ARGS]{}"),
            "TEXT Well.;CALL f{\"a\":\"[\"};CALL g{};");
  EXPECT_EQ(parse_all_ways(s, "[TOOL_CALLS]oops[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]"),
            "TEXT [TOOL_CALLS]oops;CALL f{};");
  EXPECT_EQ(parse_all_ways(s, "[TOOL_CALLS] [{\"name\": \"f\", \"argum"),
            "TEXT [TOOL_CALLS] [{\"name\": \"f\", \"argum;");
}

TEST(ParseAnswer, Gemma) {
  const AnswerStyle s = style(ToolFormat::kGemma);
  EXPECT_EQ(parse_all_ways(s, "Sure:\n```tool_code\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n```\n"),
            "TEXT Sure:;CALL f{\"a\":1};");
  EXPECT_EQ(
      parse_all_ways(
          s, "```json\n[{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\", \"parameters\": {}}]\n```"),
      "CALL f{};CALL g{};");
  EXPECT_EQ(parse_all_ways(s, "```json\n{\"name\": \"Anna\"}\n``` and ```python\n1\n```"),
            "TEXT ```json\n{\"name\": \"Anna\"}\n``` and ```python\n1\n```;");
}

/// Answers put together of everything that means something to some format.
TEST(ParseAnswer, NothingIsLostWhateverComes) {
  const std::vector<std::string> pieces = {"<think>",
                                           "</think>",
                                           "<tool_call>",
                                           "</tool_call>",
                                           "<function=f>",
                                           "</function>",
                                           "<parameter=a>",
                                           "</parameter>",
                                           "{\"name\": \"f\", \"arguments\": {}}",
                                           "{\"name\": \"g\", \"parameters\": {\"x\": 1}}",
                                           "[",
                                           "]",
                                           ", ",
                                           "{",
                                           "}",
                                           "<|python_tag|>",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "```json\n",
                                           "```tool_code\n",
                                           "```",
                                           "\n",
                                           " ",
                                           "text",
                                           "<",
                                           "\xff",
                                           "é"};
  std::mt19937 random(7);
  for (const ToolFormat tools : {ToolFormat::kNone, ToolFormat::kHermes, ToolFormat::kXml,
                                 ToolFormat::kLlama3, ToolFormat::kMistral, ToolFormat::kGemma})
    for (int i = 0; i < 300; ++i) {
      std::string answer;
      for (std::size_t n = random() % 12; n > 0; --n) answer += pieces[random() % pieces.size()];
      SCOPED_TRACE(answer);
      parse_all_ways(style(tools, i % 2 == 1), answer);
      if (HasFailure()) return;
    }
}

TEST(ParseAnswer, TakesTimeInProportion) {
  std::string answer;
  for (int i = 0; i < 40000; ++i) answer += "<tool_call>";
  answer += "</tool_call>" + std::string(200000, '[') + std::string(200000, ' ');
  for (const ToolFormat tools :
       {ToolFormat::kHermes, ToolFormat::kXml, ToolFormat::kLlama3, ToolFormat::kMistral, ToolFormat::kGemma})
    EXPECT_EQ(joined(parse(style(tools), answer, [] { return std::size_t{4096}; })), answer);
}

TEST(ParseAnswer, UnknownFormatsAreRefused) {
  EXPECT_EQ(tool_format("xml"), ToolFormat::kXml);
  EXPECT_EQ(tool_format(""), ToolFormat::kNone);
  try {
    tool_format("yaml");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), ML_E_FORMAT);
    EXPECT_NE(std::string(e.what()).find("hermes"), std::string::npos);
  }
}

}  // namespace
}  // namespace krafla
