"""The commands of `recourse`, one file each; app/cli.py mounts them."""
