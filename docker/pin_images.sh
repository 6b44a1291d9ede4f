#!/bin/sh
# Pins the images of others by digest, in docker-compose.yml and docker/Dockerfile: name:release@sha256:... A digest that
# is there already is replaced by today's. Needs a registry, and skopeo or docker with buildx to ask it.
set -eu
cd "$(dirname "$0")/.."
digest() {
    if command -v skopeo > /dev/null; then
        skopeo inspect --no-tags --format '{{.Digest}}' "docker://$1"
    else
        docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1"
    fi
}
for image in $(sed -n -e 's/^ARG PYTHON_IMAGE=//p' docker/Dockerfile \
    -e 's/^ *image: \([a-z]*:[^@ ]*\).*/\1/p' docker-compose.yml | sed 's/@.*//' | grep -v '^recourse-' | sort -u); do
    found=$(digest "$image")
    case $found in
        sha256:*) ;;
        *) echo "pin_images: no digest of $image: $found" >&2; exit 1 ;;
    esac
    sed -i "s|\([ =]\)$image\(@sha256:[0-9a-f]*\)*\$|\1$image@$found|" docker-compose.yml docker/Dockerfile
    echo "$image@$found"
done
