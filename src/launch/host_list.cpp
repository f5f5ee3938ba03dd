#include "launch/host_list.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>
#include <sstream>

namespace sluice {
namespace {

constexpr std::array<std::string_view, 3> kHostOptions{"--host", "-host", "-H"};
constexpr std::array<std::string_view, 4> kFileOptions{"--hostfile", "-hostfile", "--machinefile",
                                                       "-machinefile"};

int parse_slots(std::string_view host, std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1)
    fail({ExitCode::kUsage, "command.usage"},
         "host {}: its slots are '{}'; expected a number from 1 on, as in h1:2", printable(host),
         printable(text));
  return slots;
}

void add_host(std::vector<LaunchHost>& hosts, std::string_view name, int slots) {
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == '-' || letter == '_';
  });
  if (!is_name || name.front() == '-')
    fail({ExitCode::kUsage, "command.usage"},
         "found '{}' among the hosts; expected names with slots, as in h1,h2:2", printable(name));
  const auto known = std::ranges::find(hosts, name, &LaunchHost::name);
  if (known == hosts.end())
    hosts.push_back({std::string(name), slots});
  else
    known->slots += slots;
}

void add_line(std::vector<LaunchHost>& hosts, const std::filesystem::path& file, const std::string& line) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string name, word;
  if (!(words >> name)) return;
  int slots = 1;
  while (words >> word) {
    if (word.starts_with("slots="))
      slots = parse_slots(name, std::string_view(word).substr(6));
    else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots="))
      fail({ExitCode::kUsage, "command.usage"}, "{}: found '{}' behind host {}; expected slots=N",
           file.string(), printable(word), printable(name));
  }
  add_host(hosts, name, slots);
}

}  // namespace

std::vector<LaunchHost> parse_hosts(std::string_view list) {
  std::vector<LaunchHost> hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = list.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    const std::string_view name = item.substr(0, colon);
    add_host(hosts, name, colon == item.npos ? 1 : parse_slots(name, item.substr(colon + 1)));
    begin = end + 1;
  }
  return hosts;
}

std::vector<LaunchHost> read_hostfile(const std::filesystem::path& file) {
  std::vector<LaunchHost> hosts;
  std::istringstream text(read_text_file(file, kMiB));
  for (std::string line; std::getline(text, line);) add_line(hosts, file, line);
  if (hosts.empty())
    fail({ExitCode::kUsage, "command.usage"}, "{}: there are no hosts; expected lines such as h1 slots=1",
         file.string());
  return hosts;
}

std::vector<LaunchHost> take_hosts(std::vector<std::string>& launcher_options) {
  std::vector<LaunchHost> hosts;
  for (std::size_t i = 0; i + 1 < launcher_options.size();) {
    const std::string& option = launcher_options[i];
    const bool is_list = std::ranges::find(kHostOptions, option) != kHostOptions.end();
    if (!is_list && std::ranges::find(kFileOptions, option) == kFileOptions.end()) {
      ++i;
      continue;
    }
    const std::string& value = launcher_options[i + 1];
    for (const LaunchHost& host : is_list ? parse_hosts(value) : read_hostfile(value))
      add_host(hosts, host.name, host.slots);
    const auto begin = launcher_options.begin() + static_cast<std::ptrdiff_t>(i);
    launcher_options.erase(begin, begin + 2);
  }
  return hosts;
}

int total_slots(const std::vector<LaunchHost>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const LaunchHost& host) { return sum + host.slots; });
}

std::string hosts_text(const std::vector<LaunchHost>& hosts) {
  std::vector<std::string> items;
  for (const LaunchHost& host : hosts) items.push_back(fmt::format("{}:{}", host.name, host.slots));
  return fmt::format("{}", fmt::join(items, ","));
}

}  // namespace sluice
