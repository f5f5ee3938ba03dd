// IPv4 addresses of this machine's network interfaces.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// "10.0.0.5"
[[nodiscard]] std::string ipv4_text(in_addr address);
/// The IPv4 address of a socket address of AF_INET.
[[nodiscard]] in_addr ipv4_of(const sockaddr* address);

/// One address of a network interface, in the network's order of bytes.
struct Ipv4Interface {
  in_addr address{};
  in_addr mask{};  ///< mask of the address's network; all ones where the system tells none
  bool is_up = false;
  bool is_loopback = false;
};

/// IPv4 interfaces in the system's order; nothing, with errno set, if the system gives no list.
[[nodiscard]] std::optional<std::vector<Ipv4Interface>> ipv4_interfaces();

}  // namespace sluice
