#include "train/run/stop_signal.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>

namespace heed::train {
namespace {

struct Handled {
  int number;
  const char* name;
};
constexpr Handled kSignals[] = {{SIGINT, "SIGINT"},   {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"},
                                {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}};

volatile std::sig_atomic_t received_signal = 0;
struct sigaction before[std::size(kSignals)];

void note(int number) {
  if (received_signal != 0 && number == SIGINT) {
    std::signal(number, SIG_DFL);
    std::raise(number);  // takes effect when the handler returns
  }
  received_signal = number;
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i].number, nullptr, &before[i]);
    if (before[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(kSignals[i].number, &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i].number, &before[i], nullptr);
}

int StopSignal::received() { return received_signal; }

const char* stop_signal_name(int number) {
  const auto found =
      std::find_if(std::begin(kSignals), std::end(kSignals), [&](const Handled& one) { return one.number == number; });
  return found == std::end(kSignals) ? "a signal" : found->name;
}

}  // namespace heed::train
