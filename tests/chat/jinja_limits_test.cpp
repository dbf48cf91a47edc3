// Templates that would take all memory, time or stack end with an error, and soon.
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/chat_template.h"

namespace krafla {
namespace {

std::string repeat(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

std::string error_of(const std::string& text) {
  try {
    const Prompt prompt = ChatTemplate(text).render({});
    return fmt::format("rendered {} bytes", prompt.text.size());
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), ML_E_FORMAT) << e.what();
    return e.what();
  }
}

/// `open`, n times, what is in the middle, `close`, n times.
std::string nested(const std::string& before, const std::string& open, int n, const std::string& middle, const std::string& close,
                   const std::string& after) {
  return before + repeat(open, n) + middle + repeat(close, n) + after;
}

TEST(JinjaLimits, NestingOfEveryKind) {
  const struct {
    std::string before, open, middle, close, after;
  } kinds[] = {{"{{ ", "(", "1", ")", " }}"},
               {"{{ ", "[", "1", "]", " }}"},
               {"{{ ", "{1: ", "1", "}", " }}"},
               {"{{ ", "- ", "1", "", " }}"},
               {"{{ ", "not ", "1", "", " }}"},
               {"{{ ", "f(", "1", ")", " }}"},
               {"{{ ", "l[", "1", "]", " }}"},
               {"{{ ", "1 if 1 else ", "1", "", " }}"},
               {"{{ 1", "", "", " + 1", " }}"},
               {"{{ 1", " ~ (1", "", ")", " }}"},
               {"{{ 1", "", "", "|string", " }}"},
               {"{{ x", "", "", ".a", " }}"},
               {"{{ x", "", "", "[0]", " }}"},
               {"{{ x", "", "", "(1)", " }}"},
               {"{{ 1", "", "", " and 1", " }}"},
               {"{{ 1", "", "", " ** 1", " }}"},
               {"{{ 1", "", "", " if 1", " }}"},
               {"{% set ", "(", "a", ")", " = 1 %}"},
               {"", "{% if true %}", "1", "{% endif %}", ""},
               {"", "{% for a in [1] %}", "1", "{% endfor %}", ""},
               {"", "{% macro a() %}", "1", "{% endmacro %}", ""},
               {"", "{% filter upper %}", "1", "{% endfilter %}", ""},
               {"{% if 0 %}", "", "", "{% elif 0 %}{% if 1 %}", ""}};
  for (const auto& kind : kinds)
    EXPECT_NE(error_of(nested(kind.before, kind.open, 20000, kind.middle, kind.close, kind.after)).find("deep"), std::string::npos)
        << kind.before << kind.open << kind.close;
  // As deep as is allowed, it renders.
  for (const int n : {10, 60, 90}) EXPECT_EQ(ChatTemplate(nested("{{ ", "(", n, "1", ")", " }}")).render({}).text, "1");
  EXPECT_EQ(ChatTemplate("{{ 1" + repeat(" + 1", 150) + " }}").render({}).text, "151");
}

TEST(JinjaLimits, Values) {
  const std::string grow = "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = ";
  EXPECT_NE(error_of(grow + "[ns.v] %}{% endfor %}").find("deep"), std::string::npos);
  for (const std::string text :
       {"{{ 'a' * 10 ** 9 }}", "{{ ('a' * 1000000) * 1000000 }}", "{{ [1] * 10 ** 9 }}", "{{ 'a' * 9223372036854775807 }}",
        "{{ range(10 ** 12) }}", "{{ 'a' | center(10 ** 12) }}", "{{ 'a'.ljust(10 ** 12) }}", "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}", "{% set a = 'x' * 100000 %}{{ a.replace('x', a) }}",
        "{% set a = 'x' * 100000 %}{{ a.replace('', a) }}", "{% set a = ['x'] * 100000 %}{{ a | join('y' * 100000) }}",
        "{% set l = '\\n' * 100000 %}{{ l | indent(4000, blank=true) }}", "{{ 10 ** 1000 }}", "{{ 99999999999999999999 }}",
        "{{ 9223372036854775807 + 1 }}"})
    EXPECT_FALSE(error_of(text).starts_with("rendered")) << text << ": " << error_of(text);
  EXPECT_FALSE(
      error_of("{% set ns = namespace(v='x') %}{% for i in range(64) %}{% set ns.v = ns.v + ns.v %}{% endfor %}").starts_with("rendered"));
  EXPECT_FALSE(error_of("{% set ns = namespace(v=['x']) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}{{ ns.v }}")
                   .starts_with("rendered"));
  EXPECT_FALSE(error_of("{% set ns = namespace(v=['x']) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}{{ ns.v == ns.v "
                        "}}{{ ns.v | tojson }}")
                   .starts_with("rendered"));
}

TEST(JinjaLimits, Work) {
  for (const std::string text :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",

        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% endmacro %}{{ n() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{{ a }}{% endfor %}",
        "{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{{ a.count('y') }}{% endfor %}",

        "{% set a = range(99999) | list %}{{ a | unique | list }}"})
    EXPECT_FALSE(error_of(text).starts_with("rendered")) << text << ": " << error_of(text);
}

TEST(JinjaLimits, DeepMessages) {
  ChatInput input;
  nlohmann::ordered_json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = nlohmann::ordered_json::array({std::move(deep)});
  input.messages.push_back({{"role", "user"}, {"content", std::move(deep)}});
  EXPECT_THROW(ChatTemplate("{{ messages | tojson }}").render(input), Error);
}

}  // namespace
}  // namespace krafla
