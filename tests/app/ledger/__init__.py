"""Tests of app/ledger."""

from app.ledger.chain import ChainKey

CHAIN_KEY = ChainKey(b"the secret of the tests")
