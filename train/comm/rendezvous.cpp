#include "train/comm/rendezvous.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"
#include "train/comm/tcp_socket.hpp"
#include "train/comm/watchdog.hpp"
#include "train/output/output.hpp"

namespace heed::comm {
namespace {

using data::Descriptor;

constexpr int kSlice = 100;  // milliseconds

// The end of the report on missing ranks: which variables may be left over.
std::string left_over_hint(const Launch& launch) {
  return fmt::format("; if no such process was started, {} may be left over: unset RANK and WORLD_SIZE",
                     launch.variables);
}

void require_same_size(int rank, int size, int size_of_root) {
  require<CommunicationError>(size == size_of_root, "rank {} was started with world size {}, rank 0 with {}", rank,
                              size, size_of_root);
}

// Errors of accept(2) that concern one pending connection only, without saying which; the next call may succeed.
bool is_of_one_connection(int error) {
  constexpr int kErrors[] = {EAGAIN,      EINTR,     ECONNABORTED, EPERM,        EPROTO,     ENETDOWN,
                             ENOPROTOOPT, EHOSTDOWN, ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
  return std::find(std::begin(kErrors), std::end(kErrors), error) != std::end(kErrors);
}

class Acceptor {
 public:
  Acceptor(const Launch& launch, double timeout_s)
      : launch_(launch),
        own_(greeting_of(launch)),
        notice_s_(seconds_to_notice(timeout_s)),
        listener_(listen_on(launch.port)) {}

  std::vector<Descriptor> run() {
    for (std::vector<int> missing = missing_ranks(); !missing.empty(); missing = missing_ranks()) {
      say_who_is_missing(missing);
      poll_all();
    }
    std::vector<Descriptor> sockets(static_cast<size_t>(launch_.size));
    for (Connection& connection : connections_) {
      if (connection.rank < 0) continue;
      set_blocking(connection.socket.number(), true);
      const Verdict verdict = Verdict::complete;
      send_all(connection.socket.number(), &verdict, sizeof(verdict), connection.rank);
      sockets[static_cast<size_t>(connection.rank)] = std::move(connection.socket);
    }
    return sockets;
  }

 private:
  struct Connection {
    Descriptor socket;
    Greeting greeting = {};
    size_t received = 0;  // bytes of the greeting
    int rank = -1;        // -1 until the greeting is complete
  };

  void poll_all() {
    std::vector<pollfd> polled{{.fd = listener_.number(), .events = POLLIN, .revents = 0}};
    for (const Connection& c : connections_)
      polled.push_back({.fd = c.socket.number(), .events = POLLIN, .revents = 0});
    if (::poll(polled.data(), polled.size(), kSlice) <= 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) read(connections_[i - 1]);
    }
    std::erase_if(connections_, [](const Connection& connection) { return connection.socket.number() < 0; });
    accept_all();
  }

  // Polls before each accept(), which without a free descriptor fails even if no connection is pending.
  void accept_all() {
    pollfd listener{.fd = listener_.number(), .events = POLLIN, .revents = 0};
    while (::poll(&listener, 1, 0) > 0) {
      Descriptor peer(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (peer.number() >= 0) {
        connections_.push_back({.socket = std::move(peer)});
      } else if (!is_of_one_connection(errno)) {
        make_room(errno);
      }
    }
  }

  // Frees a descriptor: closes the oldest connection that has not sent its greeting yet.
  void make_room(int error) {
    const auto unknown = std::find_if(connections_.begin(), connections_.end(), [](auto& c) { return c.rank < 0; });
    require<CommunicationError>(is_exhausted(error) && unknown != connections_.end(),
                                "rank 0 cannot accept a connection on port {}: {}; {} of {} other ranks are connected, "
                                "each needs an open file (ulimit -n)",
                                launch_.port, std::strerror(error), connections_.size(), launch_.size - 1);
    connections_.erase(unknown);
  }

  // Reads the greeting, and closes a connection that is foreign or was closed by its peer.
  void read(Connection& connection) {
    char* const to = reinterpret_cast<char*>(&connection.greeting) + connection.received;
    // Also reads after a complete greeting: a rank sends nothing more, so further bytes mark a foreign connection.
    char more = 0;
    const size_t left = sizeof(Greeting) - connection.received;
    const ssize_t got = ::recv(connection.socket.number(), left > 0 ? to : &more, std::max<size_t>(left, 1), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0 && left > 0) {
      connection.received += static_cast<size_t>(got);
      if (connection.received < sizeof(Greeting) || welcome(connection)) return;
    }
    connection = {};
  }

  bool welcome(Connection& connection) {
    const Greeting& theirs = connection.greeting;
    if (!theirs.is_of_same_run(own_) || theirs.rank <= 0 || theirs.rank >= theirs.size) return false;
    if (::send(connection.socket.number(), &own_, sizeof(own_), MSG_NOSIGNAL) != sizeof(own_)) return false;
    require_same_size(theirs.rank, theirs.size, own_.size);
    for (Connection& earlier : connections_) {
      if (earlier.rank != theirs.rank) continue;
      const Verdict verdict = Verdict::replaced;  // the receiver may have exited
      ::send(earlier.socket.number(), &verdict, sizeof(verdict), MSG_NOSIGNAL);
      earlier = {};
    }
    send_at_once(connection.socket.number());
    connection.rank = theirs.rank;
    return true;
  }

  std::vector<int> missing_ranks() const {
    std::vector<bool> is_here(static_cast<size_t>(launch_.size));
    is_here[0] = true;
    for (const Connection& c : connections_) {
      if (c.rank > 0) is_here[static_cast<size_t>(c.rank)] = true;
    }
    std::vector<int> missing;
    for (int rank = 0; rank < launch_.size; ++rank) {
      if (!is_here[static_cast<size_t>(rank)]) missing.push_back(rank);
    }
    return missing;
  }

  void say_who_is_missing(const std::vector<int>& missing) {
    if (clock_.seconds() < notice_s_) return;
    notice_s_ = std::numeric_limits<double>::infinity();
    constexpr size_t kMost = 8;
    std::string ranks = fmt::format("rank {}", missing[0]);
    for (size_t i = 1; i < std::min(missing.size(), kMost); ++i) ranks += fmt::format(", rank {}", missing[i]);
    if (missing.size() > kMost) ranks += fmt::format(" and {} more", missing.size() - kMost);
    train::write_notice(fmt::format("heed: rank 0 waits for {} to connect to {}:{}{}\n", ranks, launch_.address,
                                    launch_.port, left_over_hint(launch_)));
  }

  const Launch& launch_;
  Greeting own_;
  RunningClock clock_;
  double notice_s_;
  Descriptor listener_;
  std::vector<Connection> connections_;
};

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

bool Greeting::is_of_same_run(const Greeting& other) const {
  return std::memcmp(magic, other.magic, sizeof(magic)) == 0 && run == other.run;
}

Greeting greeting_of(const Launch& launch) {
  return {.size = launch.size, .rank = launch.rank, .run = data::checksum(launch.run)};
}

double seconds_to_notice(double timeout_s) { return std::min(5.0, timeout_s / 2); }

std::vector<Descriptor> accept_ranks(const Launch& launch, double timeout_s) {
  return Acceptor(launch, timeout_s).run();
}

Descriptor connect_to_root(const Launch& launch, double timeout_s) { return Connector(launch, timeout_s).run(); }

}  // namespace heed::comm
