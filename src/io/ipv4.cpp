#include "io/ipv4.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>

namespace sluice {

std::string ipv4_text(in_addr address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

in_addr ipv4_of(const sockaddr* address) { return reinterpret_cast<const sockaddr_in*>(address)->sin_addr; }

std::optional<std::vector<Ipv4Interface>> ipv4_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
  std::vector<Ipv4Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET)
      found.push_back({ipv4_of(entry->ifa_addr),
                       entry->ifa_netmask == nullptr ? in_addr{INADDR_NONE} : ipv4_of(entry->ifa_netmask),
                       (entry->ifa_flags & IFF_UP) != 0, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  ::freeifaddrs(list);
  return found;
}

}  // namespace sluice
