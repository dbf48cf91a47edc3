// Ctrl-C while something long runs: it ends that, not the program.
#pragma once

namespace krafla::cli {

/// While it lives, the first SIGINT or SIGTERM makes interrupted() true; the second ends the program, as at
/// any other time.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};

/// Whether a signal came since the last Interruptible was made.
bool interrupted();

}  // namespace krafla::cli
