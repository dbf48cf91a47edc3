// The tests behind `is`.
#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

const Value& other(const char* name, const Arguments& arguments) {
  const auto bound = bind(name, arguments, {"other"});
  if (bound[0] == nullptr) fail(ML_E_FORMAT, "the test {} needs a value to compare with", name);
  return *bound[0];
}

bool ordered(const char* name, Interpreter& in, const Value& value, const Arguments& arguments, int sign,
             bool or_equal) {
  const Value& with = other(name, arguments);
  if (value.is_undefined() || with.is_undefined()) in.attribute(value.is_undefined() ? value : with, name);
  in.spend_comparison(value, with);
  const int order = compare(value, with);
  return order == 0 ? or_equal : (order > 0) == (sign > 0);
}

bool is_sequence(const Value& value) {
  const List* list = value.as_list();
  return value.as_text() != nullptr || value.as_dict() != nullptr || (list != nullptr && list->indexed());
}
bool is_iterable(const Value& value) {
  return value.as_text() != nullptr || value.as_dict() != nullptr || value.as_list() != nullptr ||
         value.as_loop() != nullptr || value.is_undefined();
}
bool is_integer(const Value& value) { return value.as_int() != nullptr; }
bool is_number(const Value& value) {
  double number = 0;
  return value.number(number);
}

bool is_equal(const char* name, Interpreter& in, const Value& value, const Arguments& arguments) {
  const Value& with = other(name, arguments);
  in.spend_comparison(value, with);
  return equal(value, with);
}

bool same(Interpreter& in, const Value& a, const Value& b) {
  in.spend_comparison(a, b);
  if (a.as_bool() != nullptr || b.as_bool() != nullptr)
    return a.as_bool() != nullptr && b.as_bool() != nullptr && *a.as_bool() == *b.as_bool();
  if (a.as_text() != nullptr || a.as_float() != nullptr)
    return a.as_text() == b.as_text() && a.as_float() == b.as_float();
  return equal(a, b);
}

std::int64_t remainder(const char* name, Interpreter& in, const Value& value, const Value& by) {
  const Value rest = in.arithmetic("%", value, by);
  std::int64_t number = 0;
  if (!rest.integer(number)) fail(ML_E_FORMAT, "the test {} needs integers", name);
  return number;
}

/// Whether the text is in one case.
bool has_case(Interpreter& in, const Value& value, const char* name) {
  Arguments none;
  return truth(in.call(method(in.text(value), name), none));
}

struct Named {
  std::string_view name;
  Test test;
};
constexpr Named kTests[] = {
    {"defined", [](Interpreter&, const Value& v, Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](Interpreter&, const Value& v, Arguments&) { return v.is_undefined(); }},
    {"none", [](Interpreter&, const Value& v, Arguments&) { return v.is_none(); }},
    {"string", [](Interpreter&, const Value& v, Arguments&) { return v.as_text() != nullptr; }},
    {"mapping", [](Interpreter&, const Value& v, Arguments&) { return v.as_dict() != nullptr; }},
    {"sequence", [](Interpreter&, const Value& v, Arguments&) { return is_sequence(v) || v.is_undefined(); }},
    {"iterable", [](Interpreter&, const Value& v, Arguments&) { return is_iterable(v); }},
    {"number", [](Interpreter&, const Value& v, Arguments&) { return is_number(v); }},
    {"integer", [](Interpreter&, const Value& v, Arguments&) { return is_integer(v); }},
    {"float", [](Interpreter&, const Value& v, Arguments&) { return v.as_float() != nullptr; }},
    {"boolean", [](Interpreter&, const Value& v, Arguments&) { return v.as_bool() != nullptr; }},
    {"true", [](Interpreter&, const Value& v, Arguments&) { return v.as_bool() != nullptr && *v.as_bool(); }},
    {"false",
     [](Interpreter&, const Value& v, Arguments&) { return v.as_bool() != nullptr && !*v.as_bool(); }},
    {"callable", [](Interpreter&, const Value& v, Arguments&) { return v.as_callable() != nullptr; }},
    {"escaped",
     [](Interpreter&, const Value& v, Arguments&) { return v.as_text() != nullptr && v.as_text()->markup; }},
    {"sameas", [](Interpreter& in, const Value& v, Arguments& a) { return same(in, v, other("sameas", a)); }},
    {"equalto", [](Interpreter& in, const Value& v, Arguments& a) { return is_equal("equalto", in, v, a); }},
    {"eq", [](Interpreter& in, const Value& v, Arguments& a) { return is_equal("eq", in, v, a); }},
    {"==", [](Interpreter& in, const Value& v, Arguments& a) { return is_equal("==", in, v, a); }},
    {"ne", [](Interpreter& in, const Value& v, Arguments& a) { return !is_equal("ne", in, v, a); }},
    {"!=", [](Interpreter& in, const Value& v, Arguments& a) { return !is_equal("!=", in, v, a); }},
    {"in", [](Interpreter& in, const Value& v, Arguments& a) { return in.contains(other("in", a), v); }},
    {"lt", [](Interpreter& in, const Value& v, Arguments& a) { return ordered("lt", in, v, a, -1, false); }},
    {"lessthan",
     [](Interpreter& in, const Value& v, Arguments& a) { return ordered("lessthan", in, v, a, -1, false); }},
    {"<", [](Interpreter& in, const Value& v, Arguments& a) { return ordered("<", in, v, a, -1, false); }},
    {"le", [](Interpreter& in, const Value& v, Arguments& a) { return ordered("le", in, v, a, -1, true); }},
    {"<=", [](Interpreter& in, const Value& v, Arguments& a) { return ordered("<=", in, v, a, -1, true); }},
    {"gt", [](Interpreter& in, const Value& v, Arguments& a) { return ordered("gt", in, v, a, 1, false); }},
    {"greaterthan", [](Interpreter& in, const Value& v,
                       Arguments& a) { return ordered("greaterthan", in, v, a, 1, false); }},
    {">", [](Interpreter& in, const Value& v, Arguments& a) { return ordered(">", in, v, a, 1, false); }},
    {"ge", [](Interpreter& in, const Value& v, Arguments& a) { return ordered("ge", in, v, a, 1, true); }},
    {">=", [](Interpreter& in, const Value& v, Arguments& a) { return ordered(">=", in, v, a, 1, true); }},
    {"odd", [](Interpreter& in, const Value& v,
               Arguments&) { return remainder("odd", in, v, std::int64_t{2}) == 1; }},
    {"even", [](Interpreter& in, const Value& v,
                Arguments&) { return remainder("even", in, v, std::int64_t{2}) == 0; }},
    {"divisibleby",
     [](Interpreter& in, const Value& v, Arguments& a) {
       return remainder("divisibleby", in, v, other("divisibleby", a)) == 0;
     }},
    {"upper", [](Interpreter& in, const Value& v, Arguments&) { return has_case(in, v, "isupper"); }},
    {"lower", [](Interpreter& in, const Value& v, Arguments&) { return has_case(in, v, "islower"); }},
    {"filter",
     [](Interpreter&, const Value& v, Arguments&) {
       return v.as_text() != nullptr &&
              (find_text_filter(v.as_text()->bytes) || find_list_filter(v.as_text()->bytes));
     }},
    {"test", [](Interpreter&, const Value& v,
                Arguments&) { return v.as_text() != nullptr && find_test(v.as_text()->bytes) != nullptr; }},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const Named& known : kTests)
    if (known.name == name) return known.test;
  return nullptr;
}

}  // namespace krafla::jinja
