-- What the relayer needs beside the signed bytes.

-- the wallet a DEPLOY relay creates
alter table relays add column wallet_id text references wallets on delete set null;
-- serves: is a deployment of this wallet on its way
create index relays_wallet on relays (wallet_id) where wallet_id is not null;

-- looks at the chain that found the relay's nonce spent without any of its attempts
alter table relays add column misses int not null default 0;

-- an attempt that does nothing but spend the nonce, when every authorization inside has expired
alter table relay_attempts add column is_noop boolean not null default false;

-- one payment attempt a client key and link (Idempotency-Key or x402 payment-identifier)
create unique index payments_idempotency_key on payments (link_id, idempotency_key)
  where idempotency_key is not null and state <> 'FAILED';
