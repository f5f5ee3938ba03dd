// IPv4 addresses of this machine's network interfaces.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// IPv4 address as text, "10.0.0.5".
[[nodiscard]] std::string ipv4_text(in_addr address);
/// The IPv4 address of a socket address of AF_INET.
[[nodiscard]] in_addr ipv4_of(const sockaddr* address);

/// IPv4 address of a network interface, in network byte order.
struct Ipv4Interface {
  in_addr address{};
  in_addr mask{};  ///< netmask of the interface; all ones if the system tells none
  bool is_up = false;
  bool is_loopback = false;
};

/// IPv4 interfaces in the system's order; nothing, with errno set, if the system gives no list.
[[nodiscard]] std::optional<std::vector<Ipv4Interface>> ipv4_interfaces();

}  // namespace sluice
