"""The methods that ours is compared with, written from their papers; each behind the interface of rival.py."""
