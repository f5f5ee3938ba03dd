#include "io/tcp.hpp"

#include "base/error.hpp"
#include "support/expect_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <future>
#include <span>
#include <stop_token>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kHere = "127.0.0.1";
constexpr double kGuardSeconds = 60, kShortSeconds = 0.2;

/// Both ends of a connection.
struct Connection {
  explicit Connection(double seconds = kGuardSeconds)
      : near(TcpStream::connect(kHere, listener.port(), {seconds})), far(listener.accept({seconds})) {}
  TcpListener listener;
  TcpStream near, far;
};

TEST(Tcp, brings_more_bytes_than_the_system_takes_at_once) {
  Connection connection;
  std::vector<std::byte> sent(std::size_t{32} << 20);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::vector<std::byte> received(sent.size());
  auto sending = std::async(std::launch::async, [&] { connection.near.send(sent); });
  connection.far.receive(received);
  sending.get();
  EXPECT_EQ(received, sent);
}

TEST(Tcp, a_wait_ends_at_its_limit_and_names_the_other_end) {
  Connection connection(kShortSeconds);
  std::vector<std::byte> room(std::size_t{64} << 20);
  test::expect_error(ExitCode::kIo, {kHere, "nothing"}, [&] { connection.near.receive(room); });
  test::expect_error(ExitCode::kIo, {kHere, "nothing"}, [&] { connection.near.send(room); });
}

TEST(Tcp, an_end_that_closes_early_is_an_error) {
  TcpListener listener;
  TcpStream near = TcpStream::connect(kHere, listener.port(), {kGuardSeconds});
  { const TcpStream far = listener.accept({kGuardSeconds}); }
  std::vector<std::byte> room(5);
  test::expect_error(ExitCode::kIo, {kHere, "closed", "5 bytes"}, [&] { near.receive(room); });
}

TEST(Tcp, nobody_listens) {
  int port = 0;
  {
    const TcpListener listener;
    port = listener.port();
  }
  test::expect_error(ExitCode::kIo, {kHere},
                     [&] { static_cast<void>(TcpStream::connect(kHere, port, {kGuardSeconds})); });
}

TEST(Tcp, waits_end_when_they_are_told_to) {
  std::stop_source stop;
  const TcpListener listener;
  auto accepting = std::async(std::launch::async, [&] {
    static_cast<void>(listener.accept({kGuardSeconds, stop.get_token()}));
  });
  stop.request_stop();
  test::expect_error(ExitCode::kIo, {"given up"}, [&] { accepting.get(); });
}

TEST(Tcp, this_machine_has_an_address_and_loopback_is_the_last_one) {
  EXPECT_THAT(own_addresses(), testing::Contains(kHere));
  EXPECT_EQ(own_addresses().back(), kHere);
}

}  // namespace
}  // namespace sluice
