// Templates that would take all memory, time or stack end with an error, and soon.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

/// A template's text, with `m`, a user's text or what else a JSON value is.
std::string render(const std::string& text, const Json& m = nullptr) {
  const jinja::Body body = jinja::parse(text);
  return jinja::Interpreter().render(body, {{"m", jinja::from_json(m, true)}}).bytes;
}

std::string repeat(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

std::string error_of(const std::string& text) {
  try {
    return fmt::format("rendered {} bytes", render(text).size());
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), ML_E_FORMAT) << e.what();
    return e.what();
  }
}

/// `open`, n times, what is in the middle, `close`, n times.
std::string nested(const std::string& before, const std::string& open, int n, const std::string& middle,
                   const std::string& close, const std::string& after) {
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
    EXPECT_NE(
        error_of(nested(kind.before, kind.open, 20000, kind.middle, kind.close, kind.after)).find("deep"),
        std::string::npos)
        << kind.before << kind.open << kind.close;
  // As deep as is allowed, it renders.
  for (const int n : {10, 60, 90}) EXPECT_EQ(render(nested("{{ ", "(", n, "1", ")", " }}")), "1");
  EXPECT_EQ(render("{{ 1" + repeat(" + 1", 150) + " }}"), "151");
}

TEST(JinjaLimits, Values) {
  const std::string grow = "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = ";
  EXPECT_NE(error_of(grow + "[ns.v] %}{% endfor %}").find("deep"), std::string::npos);
  for (const std::string text :
       {"{{ 'a' * 10 ** 9 }}", "{{ ('a' * 1000000) * 1000000 }}", "{{ [1] * 10 ** 9 }}",
        "{{ 'a' * 9223372036854775807 }}", "{{ range(10 ** 12) }}", "{{ 'a' | center(10 ** 12) }}",
        "{{ 'a'.ljust(10 ** 12) }}", "{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}",
        "{% set a = 'x' * 100000 %}{{ a.replace('x', a) }}",
        "{% set a = 'x' * 100000 %}{{ a.replace('', a) }}",
        "{% set a = ['x'] * 100000 %}{{ a | join('y' * 100000) }}",
        "{% set l = '\\n' * 100000 %}{{ l | indent(4000, blank=true) }}", "{{ 10 ** 1000 }}",
        "{{ 99999999999999999999 }}", "{{ 9223372036854775807 + 1 }}"})
    EXPECT_FALSE(error_of(text).starts_with("rendered")) << text << ": " << error_of(text);
  EXPECT_FALSE(
      error_of(
          "{% set ns = namespace(v='x') %}{% for i in range(64) %}{% set ns.v = ns.v + ns.v %}{% endfor %}")
          .starts_with("rendered"));
  EXPECT_FALSE(error_of("{% set ns = namespace(v=['x']) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] "
                        "%}{% endfor %}{{ ns.v }}")
                   .starts_with("rendered"));
  EXPECT_FALSE(error_of("{% set ns = namespace(v=['x']) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] "
                        "%}{% endfor %}{{ ns.v == ns.v "
                        "}}{{ ns.v | tojson }}")
                   .starts_with("rendered"));
}

TEST(JinjaLimits, Work) {
  for (const std::string text :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",

        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% "
        "endmacro %}{{ n() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{{ a }}{% endfor %}",
        "{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{{ a.count('y') }}{% endfor %}",

        "{% set a = range(99999) | list %}{{ a | unique | list }}"})
    EXPECT_FALSE(error_of(text).starts_with("rendered")) << text << ": " << error_of(text);
}

/// What one step of a template has done: it must be counted, or a loop around it never ends.
TEST(JinjaLimits, WorkWithinAStep) {
  // Most of what is allowed is spent before, so that the test is soon over.
  const std::string most =
      "{% set p = ('x' * 3000) * 1000 %}{% set q = ('x' * 3000) * 1000 %}{% for i in range(42) %}{{ '' if p "
      "== q }}{% endfor %}";
  const auto looped = [&](const std::string& before, const std::string& expression) {
    return most + before + "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = " + expression +
           " %}{% endfor %}{% endfor %}";
  };
  const std::string two = "{% set a = 'x' * 3000000 %}{% set b = 'x' * 3000000 %}",
                    text = "{% set a = 'aB ' * 300000 %}";
  const std::string sought = most + "{% set a = 'a' * 3000000 %}", end = "'a' * 1500000 + 'b'";
  const std::string keys = "{% set d = dict(range(49998) | batch(2)) %}";
  std::string names;
  for (int i = 0; i < 20000; ++i) names += fmt::format("{{% set a{}=1 %}}", i);
  std::string parameters = "a";
  for (int i = 0; i < 20000; ++i) parameters += fmt::format(",a{}=1", i);
  const std::string templates[] = {
      // comparing
      looped(two, "a == b"), looped(two, "a < b"), looped(two, "a is eq b"), looped(two, "a is ge(b)"),
      looped(two, "[a] == [b]"), looped(two, "loop.changed(a if j % 2 else b)"),
      looped("{% set a = 'x' * 300000 %}", "[a, a ~ 'y', a ~ 'z'] | max"),
      // looking for
      sought + "{{ a.find(" + end + ") }}", sought + "{{ a.rfind('b' + 'a' * 1500000) }}",
      sought + "{{ " + end + " in a }}", sought + "{{ a.replace(" + end + ", '') }}",
      sought + "{{ a.split(" + end + ") }}", sought + "{{ a.count(" + end + ") }}",
      looped("", "('a' * 100000).strip('b' * 1000 + 'a')"),
      looped("", "('a' * 100000) | trim('b' * 1000 + 'a')"),
      // names, keys and members
      looped(names, "zz"), looped(keys, "d[j]"), looped(keys, "dict(d, y=j)"),
      looped("{% set k = 'x' * 300000 %}", "{k: 1}[k]"),
      looped("{% set ns = namespace(dict(range(49998) | map('string') | batch(2)), x=1) %}",
             "namespace(dict(a=1))"),
      looped("{% macro m(" + parameters + ") %}{% endmacro %}", "m(" + parameters.substr(2) + ")"),
      looped("", "[{'a': {'a': 1}}] | map(attribute='a.a') | list"),
      // reading and writing text
      looped("{% set f = '%%' * 300000 %}", "f % ()"),
      looped("{% set f = '%1000d' * 10000 %}{% set v = (1,) * 10000 %}", "f % v"),
      looped("{% set a = '1' * 300000 %}", "a | float"), looped("{% set a = '1' * 300000 %}", "a | int"),
      looped("", "1e300 | round(15)"), looped("", "'%f' % 1e300"), looped(text, "a | title"),
      looped(text, "a | lower"), looped(text, "a | e"), looped(text, "a | urlencode"),
      looped(text, "a | wordcount"), looped(text, "a[j]"), looped(text, "a[::-1]"),
      looped(text, "a.isupper()"), looped(text, "a | reverse"), looped(text, "a | truncate(500000)"),
      looped(text, "a.splitlines()")};
  for (const std::string& t : templates)
    EXPECT_NE(error_of(t).find("too much work"), std::string::npos)
        << t.substr(0, 200) << ": " << error_of(t);
}

/// What stays until the end, or is made before anyone looks at its size.
TEST(JinjaLimits, Memory) {
  const std::string loops = "{% for i in range(99999) %}{% for j in range(99999) %}",
                    end = "{% endfor %}{% endfor %}";
  const auto gathered = [&](const std::string& list) {
    return "{% set ns = namespace(v=[]) %}{% for i in range(9999) %}{% set ns.v = ns.v + [" + list +
           "] %}{% endfor %}";
  };
  const auto nested = [](const std::string& value, const std::string& use) {
    return "{% set ns = namespace(v=" + value +
           ") %}{% for i in range(180) %}{% set ns.v = [ns.v] %}{% endfor %}" + use;
  };
  for (const std::string& t :
       {loops + "{% macro m() %}{% endmacro %}" + end, loops + "{% set x = namespace() %}" + end,
        loops + "{% set x = cycler(1) %}" + end, loops + "{% for k in [] %}{% endfor %}" + end,
        std::string("{{ ('x' * 3000000).split('x') | length }}"),
        std::string("{{ 'x' * 3000000 | list | length }}"), gathered("('\n' * 300000).splitlines()"),
        gathered("range(99999) | batch(1) | list"), gathered("range(99999) | map('default', []) | list"),
        nested("[1] * 1000", "{{ ([ns.v] * 1000) | tojson(indent='x' * 200) }}"),
        nested("'\x01' * 20000000", "{{ ns.v }}"),
        std::string("{{ ([1] * 3000000) | tojson(separators=('x' * 200, 'y')) }}")})
    EXPECT_FALSE(error_of(t).starts_with("rendered")) << t << ": " << error_of(t);
  // The marks of a user's text, character by character.
  EXPECT_THROW(
      render("{% set ns = namespace(v=m ~ 'x') %}{% for i in range(24) %}{% set ns.v = ns.v + ns.v %}"
             "{% endfor %}",
             "u"),
      Error);
}

TEST(JinjaLimits, DeepValues) {
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THROW(render("{{ m | tojson }}", deep), Error);
}

}  // namespace
}  // namespace krafla
