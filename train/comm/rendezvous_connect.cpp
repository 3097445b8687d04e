// TCP rendezvous, the side of the ranks that connect to rank 0.
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "autograd/core/check.hpp"
#include "train/comm/rendezvous.hpp"
#include "train/comm/tcp_socket.hpp"
#include "train/comm/watchdog.hpp"
#include "train/output/output.hpp"

namespace heed::comm {
namespace {

using train::Descriptor;

constexpr int kSlice = 100;  // milliseconds

class Connector {
 public:
  Connector(const Launch& launch, double timeout_s)
      : launch_(launch),
        own_(greeting_of(launch)),
        notice_s_(seconds_to_notice(timeout_s)),
        foreign_s_(std::min(10.0, timeout_s / 2)) {}

  // Retries without limit, since rank 0 may not listen yet and its name may not resolve yet; the watchdog ends the
  // wait.
  Descriptor run() {
    constexpr double kFirstPause = 0.02, kLongestPause = 0.5;
    for (double pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const Addresses addresses(launch_.address.c_str(), launch_.port, AF_UNSPEC);
      if (!addresses.problem.empty()) problem_ = addresses.problem;
      bool something_answers = false;
      for (const addrinfo* a = addresses.first; a != nullptr; a = a->ai_next) {
        Descriptor socket = connect_to(*a);
        if (socket.number() < 0) continue;
        something_answers = true;
        if (!foreign_since_) foreign_since_ = clock_.seconds();
        if (is_welcomed(socket.number())) return await_verdict(std::move(socket));
      }
      if (!something_answers) foreign_since_.reset();
      require<CommunicationError>(!foreign_since_ || clock_.seconds() - *foreign_since_ < foreign_s_,
                                  "rank {} looks for rank 0 at {}:{}, but another program has that port: it {}; set "
                                  "MASTER_PORT to a free one, the same for all ranks",
                                  launch_.rank, launch_.address, launch_.port, answer_);
      for (const double end = clock_.seconds() + pause; clock_.seconds() < end;) wait_for(-1, 0);
    }
  }

 private:
  // Polls for a short time; returns true if one of `events` occurred.
  bool wait_for(int socket, short events) {
    pollfd polled{.fd = socket, .events = events, .revents = 0};
    const bool came = ::poll(&polled, 1, socket < 0 ? 10 : kSlice) > 0;
    if (clock_.seconds() < notice_s_) return came;
    notice_s_ = std::numeric_limits<double>::infinity();
    train::write_notice(fmt::format("heed: rank {} waits for rank 0 at {}:{} ({}){}\n", launch_.rank, launch_.address,
                                    launch_.port, problem_, left_over_hint(launch_)));
    return came;
  }
  bool wait_for(int socket, short events, double end) {
    while (clock_.seconds() < end) {
      if (wait_for(socket, events)) return true;
    }
    return false;
  }

  // Returns an empty descriptor if the connection fails.
  Descriptor connect_to(const addrinfo& address) {
    Descriptor socket = make_socket(address);
    int error = socket.number() < 0 ? errno : 0;
    if (error == 0 && ::connect(socket.number(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof(error);
      const bool came = wait_for(socket.number(), POLLOUT, clock_.seconds() + foreign_s_);
      if (!came || getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = ETIMEDOUT;
    }
    if (error == 0 && leads_to_itself(socket.number())) error = ECONNREFUSED;
    if (error == 0) return socket;
    problem_ = std::strerror(error);
    return {};
  }

  bool is_welcomed(int socket) {
    Greeting theirs;
    const std::optional<std::string> fault = exchange_greetings(socket, theirs);
    if (!fault) require_same_size(own_.rank, own_.size, theirs.size);
    if (fault) problem_ = answer_ = *fault;
    return !fault;
  }

  // What is wrong with the peer, as the end of a sentence that begins with "it"; nullopt if it is rank 0 of this run.
  std::optional<std::string> exchange_greetings(int socket, Greeting& theirs) {
    problem_ = "does not answer";
    const double end = clock_.seconds() + foreign_s_;
    if (::send(socket, &own_, sizeof(own_), MSG_NOSIGNAL) != sizeof(own_)) return "closes the connection";
    for (size_t received = 0; received < sizeof(theirs);) {
      if (!wait_for(socket, POLLIN, end)) return "does not answer";
      const ssize_t got = ::recv(socket, reinterpret_cast<char*>(&theirs) + received, sizeof(theirs) - received, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return "closes the connection";
      received += static_cast<size_t>(got);
    }
    if (!theirs.is_of_same_run(own_) || theirs.rank != 0) return "is not rank 0 of this run of heed";
    return std::nullopt;
  }

  // Without its own report: rank 0 has accepted this rank and reports which others are missing.
  Descriptor await_verdict(Descriptor socket) const {
    send_at_once(socket.number());
    set_blocking(socket.number(), true);
    Verdict verdict{};
    receive_all(socket.number(), &verdict, sizeof(verdict), 0);
    require<CommunicationError>(verdict == Verdict::complete,
                                "another process has connected as rank {} after this one: two were started with {}",
                                launch_.rank, launch_.variables);
    return socket;
  }

  const Launch& launch_;
  Greeting own_;
  RunningClock clock_;
  double notice_s_, foreign_s_;
  std::optional<double> foreign_since_;  // since when connections succeed, but none reaches rank 0
  std::string problem_, answer_;         // why the last attempt failed; what is wrong with the last peer
};

}  // namespace

Descriptor connect_to_root(const Launch& launch, double timeout_s) { return Connector(launch, timeout_s).run(); }

}  // namespace heed::comm
