"""The HTTP service: routers, services, database, ledger and dashboard."""
