#include "cli/interrupt.h"

#include <csignal>

namespace krafla::cli {
namespace {

volatile std::sig_atomic_t came = 0;

void on_signal(int signal) {
  came = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Interruptible::Interruptible() {
  came = 0;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
}

Interruptible::~Interruptible() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

bool interrupted() { return came != 0; }

}  // namespace krafla::cli
