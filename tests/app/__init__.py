"""Tests of app/, on real databases: everything that touches one runs on SQLite and on Postgres."""
