#include "launch/host_network.hpp"

#include "io/ipv4.hpp"
#include "process/host_name.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>

namespace sluice {
namespace {

/// IPv4 address in host byte order, with the length of its network's prefix in bits.
struct InterfaceAddress {
  std::uint32_t address = 0;
  int prefix = 32;

  [[nodiscard]] std::string text() const { return fmt::format("{}/{}", ipv4_text({htonl(address)}), prefix); }
  [[nodiscard]] InterfaceAddress network() const {
    const std::uint32_t mask = prefix == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix);
    return {address & mask, prefix};
  }
};

std::optional<InterfaceAddress> parse_address(const std::string& text) {
  const std::size_t slash = text.find('/');
  in_addr address{};
  InterfaceAddress found;
  if (slash == text.npos || ::inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1)
    return std::nullopt;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data() + slash + 1, end, found.prefix).ptr != end || found.prefix < 0 ||
      found.prefix > 32)
    return std::nullopt;
  found.address = ntohl(address.s_addr);
  return found;
}

/// IPv4 addresses to which a name resolves.
std::set<std::uint32_t> resolve(const std::string& host) {
  std::set<std::uint32_t> addresses;
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
    addresses.insert(ntohl(ipv4_of(each->ai_addr).s_addr));
  ::freeaddrinfo(found);
  return addresses;
}

bool is_loopback(std::uint32_t address) { return address >> 24 == 127; }

/// Address of the host to which its name resolves.
std::optional<InterfaceAddress> named_address(const HostAddresses& host) {
  const std::set<std::uint32_t> named = resolve(host.host);
  for (const std::string& text : host.addresses)
    if (const auto address = parse_address(text); address && named.contains(address->address)) return address;
  return std::nullopt;
}

bool means_loopback(const std::string& host) {
  const std::set<std::uint32_t> named = resolve(host);
  return is_this_machine(host) && std::ranges::all_of(named, is_loopback);
}

}  // namespace

bool is_this_machine(const std::string& host) {
  const std::string own = host_name();
  if (host == "localhost" || host == own || host == own.substr(0, own.find('.'))) return true;
  const std::vector<std::string> addresses = interface_addresses();
  return std::ranges::any_of(resolve(host), is_loopback) || named_address({host, addresses}).has_value();
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> found;
  for (const Ipv4Interface& each : ipv4_interfaces().value_or(std::vector<Ipv4Interface>{}))
    if (!each.is_loopback)
      found.push_back(InterfaceAddress{ntohl(each.address.s_addr), std::popcount(each.mask.s_addr)}.text());
  return found;
}

std::string networks_of(const std::vector<HostAddresses>& hosts) {
  std::set<std::string> networks;
  for (const HostAddresses& host : hosts) {
    if (means_loopback(host.host)) continue;
    const std::optional<InterfaceAddress> address = named_address(host);
    if (!address) return "";
    networks.insert(address->network().text());
  }
  return fmt::format("{}", fmt::join(networks, ","));
}

}  // namespace sluice
