#!/bin/sh
# Runs a command in an image's root file system, as its container would: as the same user, with a read-only root and
# writable places only where the compose file has them. Part of `make images`; needs root, and no engine.
#   sh docker/in_root.sh ROOT ARTIFACTS SECRETS VAR COMMAND...
# ARTIFACTS, SECRETS and VAR are folders of this machine. The mounts end with the command.
set -eu
if [ "${IN_ROOT:-}" != "$$" ]; then
    # The process stays the same, and with it the number that its caller knows.
    IN_ROOT=$$ exec unshare --mount -- sh "$0" "$@"
fi
unset IN_ROOT
root=$1 artifacts=$2 secrets=$3 var=$4
shift 4
# A mount of its own, so that it can be made read-only.
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=0755 none "$root/dev"
for device in null zero urandom random; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 none "$root/dev/shm"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mount --bind "$artifacts" "$root/var/lib/recourse-artifacts"
mount --bind "$secrets" "$root/var/lib/recourse-secrets"
mount --bind "$var" "$root/var/lib/recourse"
mount -o remount,bind,ro "$root"
# What the Dockerfile sets; everything else of the environment comes from the caller.
exec chroot --userspec=10001:10001 "$root" env -C /srv/recourse PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp MPLCONFIGDIR=/tmp/matplotlib PYTHONDONTWRITEBYTECODE=1 "$@"
