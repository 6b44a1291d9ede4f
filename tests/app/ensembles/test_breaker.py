"""The circuit breaker, with a clock that the test turns."""

from app.ensembles.blackbox import CircuitBreaker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def failed_breaker(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(threshold=3, cooldown=10.0, clock=clock)
    for _ in range(3):
        assert breaker.allow()
        breaker.failed()
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = CircuitBreaker(threshold=3, cooldown=10.0, clock=Clock())
    for succeeds in (False, False, True, False, False):
        assert breaker.allow()
        if succeeds:
            breaker.succeeded()
        else:
            breaker.failed()
    assert breaker.allow()
    breaker.failed()
    assert not breaker.allow()


def test_one_try_at_a_time_after_the_rest() -> None:
    clock = Clock()
    breaker = failed_breaker(clock)
    clock.now = 9.9
    assert [breaker.would_allow, breaker.allow()] == [False, False]
    clock.now = 10.0
    assert [breaker.would_allow, breaker.allow()] == [True, True]
    assert [breaker.would_allow, breaker.allow()] == [False, False], "one try is under way"
    breaker.failed()
    assert not breaker.allow(), "it rests again, from now"
    clock.now = 20.0
    assert breaker.allow()
    breaker.succeeded()
    assert breaker.allow()
    assert breaker.allow()
