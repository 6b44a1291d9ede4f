"""Tests of app/training."""
