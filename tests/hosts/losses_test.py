"""Hosts, links and ranks are lost one after the other over one training on three test hosts that share no disk."""
import os
import random
import time
import unittest

from on_hosts import GUARD_SECONDS
from survival_test import INTERVAL, Survival


class Many(Survival):
    """SLUICE_LOSSES losses, 3 by default, as SLUICE_SEED draws them, or a seed of its own, which is printed."""

    COUNT = int(os.environ.get("SLUICE_LOSSES", 3))
    SEED = int(os.environ.get("SLUICE_SEED", time.time_ns() % 1000000))

    def lose_host(self, k):
        self.hosts.kill(k)
        return lambda: self.bring_back(k)

    def lose_host_with_disk(self, k):
        self.lose(k)
        return lambda: self.bring_back(k)

    def lose_link(self, k):
        self.hosts.cut(k)
        return lambda: self.hosts.join(k)

    def lose_rank(self, k):
        self.kill_rank(k)
        return lambda: None

    def draw_loss(self, draw, used):
        """What to lose, on which of the hosts that the training runs on, and whether it is back at the next start, or at the one behind."""
        lose = draw.choice([self.lose_host, self.lose_host_with_disk, self.lose_link, self.lose_rank])
        k = draw.choice([k for k in used if k != 1 or lose == self.lose_rank])
        return lose, k, lose == self.lose_rank or draw.choice([True, False])

    def test_losses_one_at_a_time_lose_no_more_than_an_interval(self):
        steps = (3 * self.COUNT + 3) * INTERVAL
        print(f"seed {self.SEED}, {self.COUNT} losses", flush=True)
        draw = random.Random(self.SEED)
        expected = self.expected_losses(steps=steps)
        running = self.start_paced(self.job(steps=steps))
        next_step, used = INTERVAL, [1, 2, 3]
        for number in range(1, self.COUNT + 1):
            saved = self.await_saved(running, next_step)
            lose, k, is_soon = self.draw_loss(draw, used)
            print(f"{number}: {lose.__name__} {k}, back {'at' if is_soon else 'after'} the next start", flush=True)
            restarts, resumes = (running.output().count(text) for text in ("restart   ", "resume    "))
            began = time.monotonic()
            bring_back = lose(k)
            if is_soon:
                self.await_text(running, "restart   ", restarts + 1)
                bring_back()
            resumed = self.await_resumed(running, resumes + 1)
            print(f"   step {saved} was whole, goes on from step {resumed} after {time.monotonic() - began:.1f} s", flush=True)
            self.assertGreaterEqual(resumed, saved)
            next_step = resumed + INTERVAL
            used = [1, 2, 3] if is_soon else [host for host in (1, 2, 3) if host != k]
            if not is_soon:
                self.await_saved(running, next_step)
                bring_back()
        result = self.finish(running, 10 * GUARD_SECONDS)
        self.expect(result, 0, f"step {steps}/{steps}")
        last = self.losses()[steps]
        print(f"loss of step {steps}: {last:.6f}, and {expected[steps]:.6f} where nothing is lost", flush=True)
        self.expect_near({steps: last}, expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
