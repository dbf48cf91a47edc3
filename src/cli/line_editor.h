// Lines that a person types: with editing and history at a terminal (libedit, where it was there to build
// with), as they come in a pipe.
#pragma once

#include <memory>
#include <string>

namespace krafla::cli {

class LineEditor {
 public:
  explicit LineEditor(const std::string& prompt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Whether standard input and output are a terminal.
  bool interactive() const { return terminal_ != nullptr; }
  /// The next line without its newline; what is pasted into it may have newlines of its own. Ctrl-C in a line
  /// that is begun gives an empty one. False at the end or after Ctrl-C in an empty line.
  bool next(std::string& line);

 private:
  struct Terminal;
  struct Pipe;
  std::unique_ptr<Terminal> terminal_;
  std::unique_ptr<Pipe> pipe_;
};

}  // namespace krafla::cli
