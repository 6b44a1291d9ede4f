"""Tests of app/ledger."""
