"""Tests of app/commands."""
