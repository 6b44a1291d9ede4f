"""Where a job keeps its files in the artifact store while it runs."""

from uuid import UUID


def job_folder(job_id: UUID) -> str:
    return f"jobs/{job_id}"
