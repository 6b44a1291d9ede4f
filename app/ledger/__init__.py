"""The ledger: never one query too many."""
