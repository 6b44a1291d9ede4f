"""Scripts that run in an environment of their own (`make rivals`), with the packages that people use today."""
