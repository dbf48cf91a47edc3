#include "cli/line_editor.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
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
    if (const std::size_t n = std::wcrtomb(character, *text, &state); n != static_cast<std::size_t>(-1))
      bytes.append(character, n);
  return bytes;
}

/// Where a signal's handler says which one came. A signal alone would be lost where it comes just before the
/// read, or to another thread.
volatile int signal_pipe = -1;

void on_signal(int signal) {
  const char byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe, &byte, 1);
}

/// Ctrl-C, and those that end the program: the terminal gets its modes back first.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(const std::string& prompt) : prompt_(prompt.begin(), prompt.end()) {
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0)
      fail(ML_E_IO, "no pipe can be made: {}", std::strerror(errno));
    signal_pipe = pipe_[1];
    editor_ = el_init("krafla", stdin, stdout, stderr);
    history_ = history_winit();
    HistEventW event;
    history_w(history_, &event, H_SETSIZE, 1000);
    history_w(history_, &event, H_SETUNIQUE, 1);
    el_wset(editor_, EL_CLIENTDATA, this);
    el_wset(editor_, EL_GETCFN, &Terminal::read_key);
    el_wset(editor_, EL_PROMPT, &Terminal::prompt_of);
    el_wset(editor_, EL_EDITOR, L"emacs");
    el_wset(editor_, EL_HIST, history_w, history_);
    el_wset(editor_, EL_ADDFN, L"paste", L"Takes what is pasted", paste);
    el_wset(editor_, EL_BIND, L"\\e[200~", L"paste", nullptr);
    el_wset(editor_, EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
    el_wset(editor_, EL_BIND, L"^@", L"em-delete-or-list",
            nullptr);  // what a Ctrl-D becomes that was typed during an answer
  }
  ~Terminal() {
    history_wend(history_);
    el_end(editor_);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static wchar_t* prompt_of(EditLine* editor) {
    Terminal* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  /// One character; 0 at the end, -1 after a signal.
  static int read_key(EditLine* editor, wchar_t* key) {
    Terminal* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    std::mbstate_t state{};
    while (true) {
      pollfd inputs[2] = {{STDIN_FILENO, POLLIN, 0}, {self->pipe_[0], POLLIN, 0}};
      if (::poll(inputs, 2, -1) < 0 && errno != EINTR) return -1;
      char byte = 0;
      if (::read(self->pipe_[0], &byte, 1) == 1) {
        self->signal_ = byte;
        return -1;
      }
      if (inputs[0].revents == 0) continue;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n <= 0) return static_cast<int>(n);
      const std::size_t size = std::mbrtowc(key, &byte, 1, &state);
      if (size == 0 || size == 1) return 1;
      if (size == static_cast<std::size_t>(-1)) state = {};  // no character: dropped
    }
  }

  bool next(std::string& line) {
    struct sigaction action{}, before[std::size(kSignals)];
    signal_ = 0;
    action.sa_handler = on_signal;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &action, &before[i]);
    el_wset(editor_, EL_PREP_TERM, 1);  // before the prompt tells that keys are read
    std::fputs(kAskForPaste, stdout);
    std::fflush(stdout);
    int count = 0;
    const wchar_t* text = el_wgets(editor_, &count);
    std::fputs(kNoPaste, stdout);
    std::fflush(stdout);
    for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
    if (signal_ != 0 && signal_ != SIGINT) {
      el_wset(editor_, EL_PREP_TERM, 0);
      std::raise(signal_);
    }
    if (text == nullptr || count <= 0) {
      line.clear();
      const LineInfoW* typed = el_wline(editor_);
      return signal_ != 0 && typed->lastchar != typed->buffer;
    }
    std::wstring wide(text, static_cast<std::size_t>(count));
    if (wide.ends_with(L'\n')) wide.pop_back();
    HistEventW event;
    if (!wide.empty()) history_w(history_, &event, H_ENTER, wide.c_str());
    line = narrow(wide.c_str());
    return true;
  }

 private:
  std::wstring prompt_;
  int pipe_[2] = {-1, -1};
  int signal_ = 0;  // what ended the line, or 0
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
