-- A stranger who names a payer's transaction with another address must not take the payer's place.
drop index claims_link_hash_key;
create unique index claims_link_hash_payer_key on claims (link_id, tx_hash, client_address);
