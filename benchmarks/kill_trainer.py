"""`python -m benchmarks.kill_trainer`: kill -9 of trainers and trainings, 20 times over a few jobs, on Postgres.

Each job must end in one version with the bits of an undisturbed training, and its budget be charged for what was
dispatched. What was seen goes to benchmarks/results/kill_trainer.json.
"""

import json
import random
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from app.db import migrations
from app.db.engine import open_database
from app.ledger.audit import check_ledger
from tests.app.conftest import new_customer
from tests.patience import wait_until
from tests.servers.postgres import new_database, postgres_url
from tests.servers.worker import Site, changed, make_site
from tests.worker.lender import Lender, lending, reachable, register
from tests.worker.test_kill import QUERIES, finish_under_fire

RESULT = Path(__file__).parent / "results" / "kill_trainer.json"


def main(
    kills: Annotated[int, typer.Option(help="How often something is killed, in all.")] = 20,
    each: Annotated[int, typer.Option(help="How often in one job at most: it may end sooner.")] = 4,
    seed: int = 0,
) -> None:
    """Kill, count, and compare."""
    chance, began = random.Random(seed), time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_url() as server,
        new_database(server, f"recourse_{uuid4().hex}") as url,
        lending() as lender,
    ):
        database = open_database(url)
        migrations.upgrade(database)
        changes = reachable(lender) | {"job_lease_seconds": 4, "job_attempts": 50}
        site = make_site(Path(folder), database, url, new_customer(database), **changes)
        calm = _calm(site, lender)
        runs: list[dict[str, str | int | bool]] = []
        while (left := kills - sum(int(run["kills"]) for run in runs)) > 0:
            runs.append(_run(site, lender, f"fire{len(runs)}", min(each, left), chance, calm))
        faults = check_ledger(database, site.chain_key)
        database.close()
    result = {"kills": sum(int(run["kills"]) for run in runs), "jobs": runs, "ledger_faults": len(faults)}
    result["seconds"] = round(time.monotonic() - began, 1)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    typer.echo(json.dumps(result, indent=1))
    good = all(run["state"] == "done" and run["same_bits"] and run["within_budget"] for run in runs)
    raise typer.Exit(0 if good and not faults else 1)


def _calm(site: Site, lender: Lender) -> str:
    """The content hash of a training that nobody disturbed."""
    register(site, lender, "calm")
    job_id = site.submit(changed(site.request, queries=QUERIES, ensemble="calm"), "calm")
    site.train_all()
    version = site.version(job_id)
    assert version is not None, site.job(job_id).error
    return str(version.digest)


def _run(
    site: Site, lender: Lender, name: str, kills: int, chance: random.Random, calm: str
) -> dict[str, str | int | bool]:
    """One job under fire."""
    ensemble_id = register(site, lender, name)
    job_id = site.submit(changed(site.request, queries=QUERIES, ensemble=name), name)
    killed = finish_under_fire(site, job_id, kills, chance)
    version, job = site.version(job_id), site.job(job_id)
    with suppress(AssertionError):  # A job is done a moment before it settles; what stays reserved is reported.
        wait_until(lambda: site.ledger.balance(site.customer.tenant_id, ensemble_id).reserved == 0, 30)
    balance = site.ledger.balance(site.customer.tenant_id, ensemble_id)
    return {
        "kills": killed,
        "state": str(job.state),
        "claims": int(job.fence),
        "same_bits": version is not None and version.digest == calm,
        "seen": lender.seen.get(name, 0),
        "charged": balance.used,
        "still_reserved": balance.reserved,
        "within_budget": lender.seen.get(name, 0) <= balance.used + balance.reserved <= QUERIES,
    }


if __name__ == "__main__":
    typer.run(main)
