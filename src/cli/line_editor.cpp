#include "cli/line_editor.h"

#include <unistd.h>

#include <climits>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <string_view>
#include <utility>

#include "cli/text.h"

#ifdef KRAFLA_LIBEDIT
#include <histedit.h>
#endif

namespace krafla::cli {

#ifdef KRAFLA_LIBEDIT
namespace {

// A terminal puts these around what is pasted, once it is asked to.
constexpr const char *kAskForPaste = "\x1b[?2004h", *kNoPaste = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

/// What is pasted is one message: its newlines do not end the line.
unsigned char paste(EditLine* editor, wint_t) {
  std::wstring text;
  for (wchar_t c; !text.ends_with(kPasteEnd) && el_wgetc(editor, &c) == 1;) text += c == L'\r' ? L'\n' : c;
  if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
  if (!text.empty() && el_winsertstr(editor, text.c_str()) != 0) return CC_ERROR;
  return CC_REFRESH;
}

std::string narrow(const wchar_t* text) {
  std::string bytes;
  char character[MB_LEN_MAX];
  for (std::mbstate_t state{}; *text != 0; ++text)
    if (const std::size_t n = std::wcrtomb(character, *text, &state); n != static_cast<std::size_t>(-1)) bytes.append(character, n);
  return bytes;
}

void leave(int) {}  // interrupts the read

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(const std::string& prompt) : prompt_(prompt.begin(), prompt.end()) {
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_ = el_init("krafla", stdin, stdout, stderr);
    history_ = history_winit();
    HistEventW event;
    history_w(history_, &event, H_SETSIZE, 1000);
    history_w(history_, &event, H_SETUNIQUE, 1);
    el_wset(editor_, EL_CLIENTDATA, this);
    el_wset(editor_, EL_PROMPT, &Terminal::prompt_of);
    el_wset(editor_, EL_EDITOR, L"emacs");
    el_wset(editor_, EL_HIST, history_w, history_);
    el_wset(editor_, EL_ADDFN, L"paste", L"Takes what is pasted", paste);
    el_wset(editor_, EL_BIND, L"\\e[200~", L"paste", nullptr);
    el_wset(editor_, EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
  }
  ~Terminal() {
    history_wend(history_);
    el_end(editor_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static wchar_t* prompt_of(EditLine* editor) {
    Terminal* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  bool next(std::string& line) {
    struct sigaction action{}, before{};
    action.sa_handler = leave;  // without SA_RESTART: the read ends
    ::sigaction(SIGINT, &action, &before);
    std::fputs(kAskForPaste, stdout);
    std::fflush(stdout);
    int count = 0;
    const wchar_t* text = el_wgets(editor_, &count);
    std::fputs(kNoPaste, stdout);
    std::fflush(stdout);
    ::sigaction(SIGINT, &before, nullptr);
    if (text == nullptr || count <= 0) return false;
    std::wstring wide(text, static_cast<std::size_t>(count));
    if (wide.ends_with(L'\n')) wide.pop_back();
    HistEventW event;
    if (!wide.empty()) history_w(history_, &event, H_ENTER, wide.c_str());
    line = narrow(wide.c_str());
    return true;
  }

 private:
  std::wstring prompt_;
  EditLine* editor_;
  HistoryW* history_;
};
#else
struct LineEditor::Terminal {
  explicit Terminal(std::string prompt) : prompt_(std::move(prompt)) {}
  bool next(std::string& line) {
    std::fputs(prompt_.c_str(), stdout);
    std::fflush(stdout);
    return lines_.next(line);
  }

 private:
  std::string prompt_;
  LineReader lines_{"-"};
};
#endif

struct LineEditor::Pipe {
  LineReader lines{"-"};
};

LineEditor::LineEditor(const std::string& prompt) {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1)
    terminal_ = std::make_unique<Terminal>(prompt);
  else
    pipe_ = std::make_unique<Pipe>();
}

LineEditor::~LineEditor() = default;

bool LineEditor::next(std::string& line) {
  if (terminal_) return terminal_->next(line);
  if (!pipe_->lines.next(line)) return false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace krafla::cli
