#!/bin/sh
# Builds both images without an engine, and tries them: `make images`. Needs root, Debian's buildah and debootstrap.
# The base is made with debootstrap (bookworm has Python 3.11) and stands in for the one that the Dockerfile names, so
# this proves the Dockerfile, not the base. Then the end-to-end test runs the compose file's command lines in the
# images' root file systems, as the containers' user, read-only, against a real Postgres and a real Redis.
set -eu
cd "$(dirname "$0")/.."
work=${IMAGES_DIR:-/tmp/recourse-images}
python=.venv/bin/python
base=$(sed -n 's/^ARG PYTHON_IMAGE=//p' docker/Dockerfile)

fail() {
    echo "make images: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "needs root, for chroot and mounts"
for tool in buildah debootstrap unshare; do
    command -v "$tool" > /dev/null || fail "$tool is missing: apt-get install buildah debootstrap"
done
case ${RECOURSE_TEST_DATABASE_URL:-} in
    *//*@[0-9a-z]*) ;;
    *) fail "set RECOURSE_TEST_DATABASE_URL to a Postgres that listens on TCP: a chroot does not reach its socket" ;;
esac
buildah() {
    command buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"
}

mkdir -p "$work/roots"
if [ ! -e "$work/base/.made" ]; then
    rm -rf "$work/base"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/base"
    touch "$work/base/.made"
fi
if ! buildah inspect --type image "$base" > /dev/null 2>&1; then
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/base" /
    buildah commit --quiet --rm "$container" "$base"
fi

# pip in the build looks where pip looks here: its configuration, and the folders that this names.
"$python" docker/pip_settings.py "$work/pip.conf" > "$work/pip.mounts"
for target in api worker; do
    # No --layers: the vfs driver copies the whole tree for each, which took 50 GB.
    # shellcheck disable=SC2046  # one option a line, without blanks in it
    buildah bud --isolation chroot --pull-never --file docker/Dockerfile --target "$target" \
        --volume "$work/pip.conf:/etc/pip.conf:ro" $(cat "$work/pip.mounts") \
        --build-arg "TORCH=${TORCH:-cpu}" --build-arg "TORCH_INDEX=${TORCH_INDEX:-}" --tag "recourse-$target:0.1.0" .
    container=$(buildah from --pull-never "recourse-$target:0.1.0")
    mounted=$(buildah mount "$container")
    rm -rf "$work/roots/$target"
    cp -a "$mounted" "$work/roots/$target"
    buildah umount "$container" > /dev/null
    buildah rm "$container" > /dev/null
    du -sh "$work/roots/$target"
done
[ ! -d "$work/roots/api/opt/venv/lib/python3.11/site-packages/torch" ] || fail "the api image has torch"

RECOURSE_TEST_ROOTS="$work/roots" "$python" -m pytest -q -p no:xdist tests/system/test_end_to_end.py -k production
echo "make images: both images are built, and served the end-to-end test from their root file systems" >&2
