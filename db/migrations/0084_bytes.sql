-- Hashes, addresses, nonces and signatures of payments, transfers and the history are bytes: as text each byte took two, in every version
-- of a row and in the write-ahead log. All processes of the version before must have stopped.

create function hex_of(bytes bytea) returns text
  language sql immutable strict parallel safe
  return '0x' || encode(bytes, 'hex');

create function bytes_of(hex text) returns bytea
  language sql immutable strict parallel safe
  return decode(substr(hex, 3), 'hex');

create function address_key(address bytea) returns bigint
  language sql immutable parallel safe
  return ('x' || encode(substr(address, 13), 'hex'))::bit(64)::bigint;

create function authorization_digest(network text, token bytea, payer bytea, nonce bytea) returns uuid
  language sql immutable parallel safe
  return encode(substr(sha256(network::bytea || token || payer || nonce), 1, 16), 'hex')::uuid;

create function log_digest(network text, block_hash bytea, log_index int) returns uuid
  language sql immutable parallel safe
  return encode(substr(sha256(network::bytea || block_hash || log_index::text::bytea), 1, 16), 'hex')::uuid;

drop index payments_authorization_key;
alter table payments
  drop constraint payments_payer_check,
  drop constraint payments_recipient_check,
  drop constraint payments_nonce_check,
  alter column token type bytea using bytes_of(token),
  alter column payer type bytea using bytes_of(payer),
  alter column recipient type bytea using bytes_of(recipient),
  alter column nonce type bytea using bytes_of(nonce),
  alter column signature type bytea using bytes_of(signature),
  alter column tx_hash type bytea using bytes_of(tx_hash),
  add constraint payments_lengths_check check (
    octet_length(token) = 20 and octet_length(payer) = 20 and octet_length(recipient) = 20
    and octet_length(nonce) = 32 and octet_length(tx_hash) = 32
  );
-- an authorization is accepted once, whatever link it is shown to
create unique index payments_authorization_key on payments (authorization_digest(network, token, payer, nonce));

drop index transfers_log_key;
drop index transfers_to;
drop index transfers_from;
alter table transfers
  alter column block_hash type bytea using bytes_of(block_hash),
  alter column tx_hash type bytea using bytes_of(tx_hash),
  alter column from_address type bytea using bytes_of(from_address),
  alter column to_address type bytea using bytes_of(to_address),
  alter column authorization_nonce type bytea using bytes_of(authorization_nonce),
  add constraint transfers_lengths_check check (
    octet_length(block_hash) = 32 and octet_length(tx_hash) = 32 and octet_length(from_address) = 20
    and octet_length(to_address) = 20 and octet_length(authorization_nonce) = 32
  );
-- a log is stored once, also when its block comes back after a reorganisation
create unique index transfers_log_key on transfers (log_digest(network, block_hash, log_index));
-- serves: balance of a wallet in the ledger, on any network
create index transfers_to on transfers (address_key(to_address), block_number);
create index transfers_from on transfers (address_key(from_address), block_number);

drop index transactions_user_hash;
alter table transactions
  alter column counterparty type bytea using bytes_of(counterparty),
  alter column tx_hash type bytea using bytes_of(tx_hash),
  add constraint transactions_lengths_check check (octet_length(counterparty) = 20 and octet_length(tx_hash) = 32);
-- serves: search by the beginning of a hash; its first 6 bytes leave hardly more than one row
create index transactions_user_hash on transactions (owner, substr(tx_hash, 1, 6))
  where is_settled and tx_hash is not null;

drop function authorization_digest(text, text, text, text);
drop function log_digest(text, text, int);
