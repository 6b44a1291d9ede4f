"""Tests of the method."""
