-- needs: all processes stopped
-- A document holds the hashes of its transfer and block as bytes, as transfers do, half of what they take as text; and those of a link are
-- found by when it was made, in entries of 16 bytes instead of 40. Both rewrite the table's indexes: written here once for all.
-- Issuing documents waits meanwhile.

create function link_moment(link_id text) returns text
  language sql immutable strict parallel safe
  return substr(link_id, 6, 7);
comment on function link_moment(text) is 'of a link''s id, the characters that tell the millisecond of its making: it names hardly more than one link';

drop index documents_link;
drop index documents_transfer_digest_key;
alter table documents
  drop constraint documents_tx_hash_check,
  drop constraint documents_block_hash_check,
  alter column tx_hash type bytea using bytes_of(tx_hash),
  alter column block_hash type bytea using bytes_of(block_hash),
  add constraint documents_lengths_check check (octet_length(tx_hash) = 32 and octet_length(block_hash) = 32);
-- a transfer has one valid document of each kind
create unique index documents_transfer_digest_key on documents (log_digest(network, tx_hash, log_index), kind)
  where voided_at is null;
-- serves: the documents of a link
create index documents_link_moment on documents (link_moment(link_id));
