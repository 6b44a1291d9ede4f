"""All attacks, in the order in which they are run."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.hostile import bodies, connections, races, remote
from benchmarks.hostile.site import Site
from benchmarks.hostile.verdict import Seen


@dataclass(frozen=True, slots=True)
class Attack:
    """`run` attacks for about so many seconds; `stops_service`: nobody is promised an answer meanwhile."""

    name: str
    run: Callable[[Site, float], Seen]
    stops_service: bool = False


ATTACKS = (
    Attack("ledger readers that do not read", connections.read_no_ledger),
    Attack("endless header lines", connections.send_endless_headers),
    Attack("one endless header", connections.send_one_endless_header),
    Attack("half-sent requests", connections.send_halves),
    Attack("connection flood", connections.flood),
    Attack("event listeners that hang", connections.listen_and_hang),
    Attack("Parquet bomb", bodies.send_bombs),
    Attack("a million unknown fields", bodies.send_unknown_fields),
    Attack("nested lists", bodies.send_nested_lists),
    Attack("the widest records", bodies.send_wide_records),
    Attack("large overrides", bodies.send_overrides),
    Attack("uploads of one tenant", bodies.upload_without_end),
    Attack("readers of long lists", bodies.read_lists),
    Attack("two slow lenders", remote.call_slow_lenders),
    Attack("forty lenders", remote.call_many_lenders),
    Attack("lenders that answer twice", remote.call_lenders_that_answer_twice),
    Attack("race for the queue", races.race_for_the_queue),
    Attack("guesses at the sign-in", races.guess_keys),
    Attack("cursor of the year 1", races.ask_for_the_year_1),
    Attack("a training that is stopped", races.stop_a_training),
    Attack("kills between commits", races.kill_between_commits, stops_service=True),
)
