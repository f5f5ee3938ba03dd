// Addresses and networks of hosts: which host is this machine, and which network ranks use.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Whether a name means this machine.
[[nodiscard]] bool is_this_machine(const std::string& host);

/// IPv4 addresses of this machine with the lengths of their networks' prefixes, "10.0.0.5/24", without
/// loopback.
[[nodiscard]] std::vector<std::string> interface_addresses();

/// Name of a host, and its interface_addresses().
struct HostAddresses {
  std::string host;
  std::vector<std::string> addresses;
};

/// Networks to which the hosts' names resolve, "10.0.0.0/24", separated by commas. "" if a name resolves to
/// no address of its host: then nothing is known of how hosts reach each other. A name that means loopback on
/// this machine, as often for its own, takes the network of the others.
[[nodiscard]] std::string networks_of(const std::vector<HostAddresses>& hosts);

}  // namespace sluice
