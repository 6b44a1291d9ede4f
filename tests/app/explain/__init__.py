"""Tests of app/explaining."""
