"""Tests of app/blackbox."""
