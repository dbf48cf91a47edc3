#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "jinja/text.h"

namespace krafla::jinja {
namespace {

std::string with_plain_line_ends(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_line_ends(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const std::size_t open = find_open();
      if (open == std::string::npos) {
        add_data(text_.substr(at_));
        break;
      }
      const char kind = text_[open + 1];
      const char sign = sign_at(open + 2);
      add_data(data_before(open, sign, kind != '{'));
      move_to(open + 2 + (sign != 0 ? 1 : 0));
      if (kind == '#')
        comment();
      else if (kind == '{')
        inside(Token::Kind::kVariableBegin, Token::Kind::kVariableEnd, '}');
      else if (!raw_block())
        inside(Token::Kind::kBlockBegin, Token::Kind::kBlockEnd, '%');
    }
    add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    fail(ML_E_FORMAT, "chat template, line {}: {}", line_, what);
  }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void add_data(std::string text) {
    if (!text.empty()) add(Token::Kind::kData, std::move(text));
  }
  void move_to(std::size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  char sign_at(std::size_t i) const { return at(i) == '-' || at(i) == '+' ? at(i) : '\0'; }

  std::size_t find_open() const {
    for (std::size_t i = text_.find('{', at_); i != std::string::npos; i = text_.find('{', i + 1))
      if (at(i + 1) == '{' || at(i + 1) == '%' || at(i + 1) == '#') return i;
    return std::string::npos;
  }
  std::size_t space_end(std::size_t i) const {
    while (i < text_.size() && is_space(character_at(text_, i).code)) i += character_at(text_, i).size;
    return i;
  }

  /// The data from here to a tag at `open`, without what the tag takes away before itself.
  std::string data_before(std::size_t open, char sign, bool lstrip) const {
    const std::string_view data = std::string_view(text_).substr(at_, open - at_);
    if (sign == '-') return std::string(data.substr(0, stripped(data, false, true).second));
    if (sign == 0 && lstrip) {
      const std::size_t line = data.rfind('\n') + 1;
      const bool starts = line > 0 || at_ == 0 || text_[at_ - 1] == '\n';
      const std::string_view rest = data.substr(line);
      if (starts && stripped(rest, true, false).first == rest.size())
        return std::string(data.substr(0, line));
    }
    return std::string(data);
  }

  /// Where the text goes on after a closing tag whose sign, if any, is at `i`; npos: it is none. `close`:
  /// '%', '}' or '#'.
  std::size_t after_close(std::size_t i, char close) const {
    const char sign = sign_at(i);
    if (sign == '+' && close == '}') return std::string::npos;
    const std::size_t tag = i + (sign != 0 ? 1 : 0);
    const char second = close == '#' || close == '%' ? '}' : close;
    if (at(tag) != close || at(tag + 1) != second) return std::string::npos;
    if (sign == '-') return space_end(tag + 2);
    return sign == 0 && close != '}' && at(tag + 2) == '\n' ? tag + 3 : tag + 2;
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) wrong("a comment is not closed");
    const bool sign = end > at_ && sign_at(end - 1) != 0;
    move_to(after_close(sign ? end - 1 : end, '#'));
  }

  /// After "{%": a raw block, to its end; false where it is none.
  bool raw_block() {
    std::size_t i = space_end(at_);
    if (text_.compare(i, 3, "raw") != 0) return false;
    i = space_end(i + 3);
    const bool minus = at(i) == '-';
    if (minus) ++i;
    if (at(i) != '%' || at(i + 1) != '}') return false;
    move_to(minus ? space_end(i + 2) : i + 2);
    for (std::size_t open = text_.find("{%", at_); open != std::string::npos;
         open = text_.find("{%", open + 1)) {
      const char sign = sign_at(open + 2);
      const std::size_t name = space_end(open + 2 + (sign != 0 ? 1 : 0));
      if (text_.compare(name, 6, "endraw") != 0) continue;
      const std::size_t end = after_close(space_end(name + 6), '%');
      if (end == std::string::npos) continue;
      add_data(data_before(open, sign, true));
      move_to(end);
      return true;
    }
    wrong("a raw block is not closed");
  }

  void inside(Token::Kind begin, Token::Kind end, char close) {
    add(begin, "");
    std::string brackets;
    while (true) {
      if (brackets.empty()) {
        const std::size_t after = after_close(at_, close);
        if (after != std::string::npos) {
          add(end, "");
          move_to(after);
          return;
        }
      }
      if (at_ >= text_.size()) wrong("a tag is not closed");
      const std::size_t next = space_end(at_);
      if (next != at_)
        move_to(next);
      else if (is_digit(text_[at_]))
        number();
      else if (is_name_start(text_[at_]))
        name();
      else if (text_[at_] == '"' || text_[at_] == '\'')
        quoted();
      else
        operation(brackets);
    }
  }

  void name() {
    std::size_t i = at_;
    while (is_name_start(at(i)) || is_digit(at(i))) ++i;
    add(Token::Kind::kName, text_.substr(at_, i - at_));
    move_to(i);
  }

  std::size_t digits_end(std::size_t i) const {
    while (is_digit(at(i)) || (at(i) == '_' && is_digit(at(i + 1)))) ++i;
    return i;
  }
  /// 0x, 0o or 0b and digits; false if that is not what stands here.
  bool based_number() {
    constexpr std::string_view kLetters = "xXoObB";
    const std::size_t letter = at(at_) == '0' ? kLetters.find(at(at_ + 1)) : std::string_view::npos;
    if (letter == std::string_view::npos) return false;
    std::size_t i = at_ + 2;
    while (is_digit(at(i)) || is_name_start(at(i))) ++i;
    std::string digits = text_.substr(at_ + 2, i - at_ - 2);
    std::erase(digits, '_');
    std::int64_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                      letter < 2   ? 16
                                      : letter < 4 ? 8
                                                   : 2);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size())
      wrong("a number that is none, or too large");
    add(Token::Kind::kInteger, std::to_string(value));
    move_to(i);
    return true;
  }
  void number() {
    if (based_number()) return;
    std::size_t i = digits_end(at_);
    bool real = false;
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    if (!after_dot && at(i) == '.' && is_digit(at(i + 1))) {
      i = digits_end(i + 1);
      real = true;
    }
    if (!after_dot && (at(i) == 'e' || at(i) == 'E')) {
      const std::size_t exponent = i + (at(i + 1) == '+' || at(i + 1) == '-' ? 2 : 1);
      if (is_digit(at(exponent))) {
        i = digits_end(exponent);
        real = true;
      }
    }
    std::string digits = text_.substr(at_, i - at_);
    std::erase(digits, '_');
    add(real ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(digits));
    move_to(i);
  }

  void quoted() {
    std::string value;
    const char quote = text_[at_];
    std::size_t i = at_ + 1;
    while (i < text_.size() && text_[i] != quote) {
      if (text_[i] == '\\' && i + 1 < text_.size())
        escape(i, value);
      else
        value += text_[i++];
    }
    if (i >= text_.size()) wrong("a string is not closed");
    add(Token::Kind::kString, std::move(value));
    move_to(i + 1);
  }

  /// The escape at `i`, as Python's unicode_escape reads it.
  void escape(std::size_t& i, std::string& value) {
    const char c = text_[i + 1];
    static constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t found = kNames.find(c); found != std::string_view::npos) {
      value += kValues[found];
      i += 2;
    } else if (c == '\n') {
      i += 2;
    } else if (c >= '0' && c <= '7') {
      std::uint32_t code = 0;
      for (i += 1; i < text_.size() && text_[i] >= '0' && text_[i] <= '7' && code < 64; ++i)
        code = code * 8 + static_cast<std::uint32_t>(text_[i] - '0');
      value += utf8(code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      std::uint32_t code = 0;
      for (std::size_t k = 0; k < size; ++k) {
        const std::size_t digit =
            std::string_view("0123456789abcdef").find(static_cast<char>(at(i + 2 + k) | 0x20));
        if (digit == std::string_view::npos || at(i + 2 + k) < '0')
          wrong(fmt::format("\\{} needs {} hexadecimal digits", c, size));
        code = code << 4 | static_cast<std::uint32_t>(digit);
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        wrong(fmt::format("\\{} names no character", c));
      value += utf8(code);
      i += 2 + size;
    } else {
      value += '\\';
      ++i;
    }
  }

  void operation(std::string& brackets) {
    static constexpr std::array<std::string_view, 6> kDouble = {"//", "**", "==", "!=", ">=", "<="};
    const std::string two = text_.substr(at_, 2);
    const char c = text_[at_];
    if (std::find(kDouble.begin(), kDouble.end(), two) != kDouble.end()) {
      add(Token::Kind::kOperator, two);
      return move_to(at_ + 2);
    }
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos)
      wrong(fmt::format("'{}' has no meaning here", text_.substr(at_, character_at(text_, at_).size)));
    if (c == '(' || c == '[' || c == '{') {
      brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) wrong(fmt::format("'{}' closes nothing", c));
      brackets.pop_back();
    }
    add(Token::Kind::kOperator, std::string(1, c));
    move_to(at_ + 1);
  }

  std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace krafla::jinja
