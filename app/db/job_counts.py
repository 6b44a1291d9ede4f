"""Counts of a tenant's jobs, for the metrics."""

from sqlalchemy import Connection, func, select

from app.db.service_tables import Job
from app.db.types import AnyRow


def by_state(connection: Connection, tenant_id: int) -> list[AnyRow]:
    """state, count, and seconds: how long the finished ones took in all."""
    if connection.dialect.name == "sqlite":
        took = (func.julianday(Job.finished_at) - func.julianday(Job.started_at)) * 86_400.0
    else:
        took = func.extract("epoch", Job.finished_at - Job.started_at)
    statement = (
        select(Job.state, func.count().label("jobs"), func.coalesce(func.sum(took), 0.0).label("seconds"))
        .where(Job.tenant_id == tenant_id)
        .group_by(Job.state)
    )
    return list(connection.execute(statement).all())
