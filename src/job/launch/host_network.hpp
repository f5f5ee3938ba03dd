// Addresses and networks of hosts: which of them is this machine, and which network ranks are to use.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Whether that name means this machine.
[[nodiscard]] bool is_this_machine(const std::string& host);

/// IPv4 addresses of this machine with the lengths of their networks' prefixes, "10.0.0.5/24", but for
/// loopback.
[[nodiscard]] std::vector<std::string> interface_addresses();

/// A host's name, and its interface_addresses().
struct HostAddresses {
  std::string host;
  std::vector<std::string> addresses;
};

/// Networks that the names of the hosts resolve to, "10.0.0.0/24", with commas between them. "" if a name
/// resolves to no address that its host has: then nothing is known of how hosts reach each other. A name that
/// means loopback on this machine, as many systems give their own, takes the network of the others.
[[nodiscard]] std::string networks_of(const std::vector<HostAddresses>& hosts);

}  // namespace sluice
