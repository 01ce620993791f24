#!/bin/sh
# What compose.yaml asks of the official Postgres image, done with another Postgres: the cluster, its user, database and password, access by scram.
set -eu
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$data"
  chown postgres:postgres "$data" /run/postgresql
  chmod 700 "$data"
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$data/PG_VERSION" ]; then
  # the arguments are several words
  # shellcheck disable=SC2086
  initdb -D "$data" -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256 $POSTGRES_INITDB_ARGS
  echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
  printf "listen_addresses = '*'\nunix_socket_directories = '/run/postgresql'\n" >>"$data/postgresql.conf"
  echo "create database \"$POSTGRES_DB\"" | postgres --single -D "$data" -j postgres
fi
exec "$@"
