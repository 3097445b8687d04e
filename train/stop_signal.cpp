#include "train/stop_signal.hpp"

#include <csignal>

namespace heed::train {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void note(int number) {
  if (received_signal != 0 && number == SIGINT) {
    std::signal(number, SIG_DFL);
    std::raise(number);  // takes effect when the handler returns
  }
  received_signal = number;
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  for (const int signal : kSignals) {
    struct sigaction action {};
    action.sa_handler = note;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

const char* StopSignal::received() {
  switch (received_signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return nullptr;
  }
}

}  // namespace heed::train
