-- What tables of several subjects compute with: short forms of ids and addresses for indexes, bytes as text, exact times.

-- Search for a part of a text by its trigrams.
create extension if not exists pg_trgm;

-- A user's id in 16 bytes instead of 42, for indexes: the uuid behind its prefix, one to one.
create function owner_key(user_id text) returns uuid
  language sql immutable parallel safe
  return substr(user_id, 6)::uuid;

-- The last 8 bytes of an address, for indexes. Queries compare the address too.
create function address_key(address bytea) returns bigint
  language sql immutable parallel safe
  return ('x' || encode(substr(address, 13), 'hex'))::bit(64)::bigint;

-- Hashes, addresses, nonces and signatures are bytea in the tables that grow with each payment, half as long as their text; elsewhere they
-- are text, 0x and lower case. These two join them.
create function hex_of(bytes bytea) returns text
  language sql immutable strict parallel safe
  return '0x' || encode(bytes, 'hex');

create function bytes_of(hex text) returns bytea
  language sql immutable strict parallel safe
  return decode(substr(hex, 3), 'hex');

-- Exact microseconds since 1970, for cursors: a Date of JavaScript keeps only milliseconds.
create function timestamp_micros(instant timestamptz) returns bigint
  language sql immutable parallel safe
  return (extract(epoch from instant) * 1000000)::bigint;

create function to_timestamp_micros(micros bigint) returns timestamptz
  language sql immutable parallel safe
  return timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond';
