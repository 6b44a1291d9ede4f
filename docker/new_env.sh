#!/bin/sh
# Writes .env with new secrets for docker-compose.yml. An .env that is there already is left as it is.
set -eu
cd "$(dirname "$0")/.."
if [ -e .env ]; then
    echo ".env is there already: it is left as it is" >&2
    exit 1
fi
secret() {
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}
umask 077
cat > .env <<END
# Made by docker/new_env.sh. Keep a copy where secrets are kept: without RECOURSE_KEY_SECRET no key works any more.
# Every other setting of .env.example may be added here.
POSTGRES_PASSWORD=$(secret)
REDIS_PASSWORD=$(secret)
RECOURSE_KEY_SECRET=$(secret)
RECOURSE_WORKER_KEY=$(secret)
END
echo ".env is written, with four new secrets" >&2
