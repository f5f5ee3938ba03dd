// TCP connections, for threads that exchange bytes with another machine beside MPI.
#pragma once

#include "io/file.hpp"

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace sluice {

/// Limit on every wait of a connection: Error(kIo) if nothing has moved for `seconds`, or soon after a stop
/// was asked for.
struct TcpLimit {
  double seconds = 600;
  std::stop_token stop{};
};

/// One end of a TCP connection. Move-only; closes itself. All calls throw Error(kIo) with the name of the
/// other end.
class TcpStream {
 public:
  /// `peer` names the other end in messages.
  TcpStream(FileDescriptor socket, std::string peer, TcpLimit limit);
  /// Connects to an IPv4 address such as "10.0.0.2" within the limit.
  [[nodiscard]] static TcpStream connect(const std::string& address, int port, TcpLimit limit);

  void set_limit(TcpLimit limit) { limit_ = std::move(limit); }
  void send(std::span<const std::byte> bytes);
  /// Fills `out` with received bytes. Error(kIo) also if the other end closes first.
  void receive(std::span<std::byte> out);

 private:
  void wait_for(short events, const char* what) const;

  FileDescriptor socket_;
  std::string peer_;
  TcpLimit limit_;
};

/// Waits for connections on a free port of all interfaces. Move-only.
class TcpListener {
 public:
  /// Begins to listen. Error(kIo) if the system refuses.
  TcpListener();
  [[nodiscard]] int port() const { return port_; }
  /// Waits for the next connection, for any time; Error(kIo) soon after a stop was asked for. The returned
  /// stream has the given limit.
  [[nodiscard]] TcpStream accept(const TcpLimit& limit) const;

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

/// IPv4 addresses of this machine's interfaces that are up, loopback last.
[[nodiscard]] std::vector<std::string> own_addresses();

}  // namespace sluice
