-- Documents are found by 16 bytes of what names their merchant and their transfer, not by 42 and 80: their indexes were as large as
-- their rows, and the pages that a random hash of 66 characters falls into were most of what a document wrote into the log.

-- a transfer has one valid document of each kind
create unique index concurrently documents_transfer_digest_key
  on documents (log_digest(network, bytes_of(tx_hash), log_index), kind) where voided_at is null;
drop index concurrently if exists documents_transfer_kind_key;

-- a number is used once; serves: the documents of a month in the order of their numbers
create unique index concurrently documents_owner_series_key on documents (owner_key(user_id), kind, is_test, year, number);
drop index concurrently if exists documents_series_key;

-- serves: a merchant's documents, newest first, and those of a month; of one time they are sorted by number
create index concurrently documents_owner_happened on documents (owner_key(user_id), happened_at desc);
drop index concurrently if exists documents_happened;
