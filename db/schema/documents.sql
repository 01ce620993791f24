-- Numbered receipts and credit notes. A number is never used twice and none is left out: it comes from a counter's row in the transaction
-- that stores the document, so a rolled back document gives its number back. Without a key to the user: each check would lock the user's row,
-- and write that into the log.

-- The last number of a series. Those of test networks are numbered apart, under a kind with TEST_ in front, so that the numbers of documents
-- about real money have no gap.
create table document_counters (
  year int not null check (year between 2000 and 9999),
  last_number int not null check (last_number > 0),
  user_id text not null,
  kind text not null check (kind in ('RECEIPT', 'CREDIT_NOTE', 'TEST_RECEIPT', 'TEST_CREDIT_NOTE')),
  primary key (user_id, kind, year)
);

-- Kind, test network, year and number of a document in one number, in their order.
create function document_place(kind text, is_test boolean, year int, number int) returns bigint
  language sql immutable parallel safe
  return (case kind when 'CREDIT_NOTE' then 2 else 0 end + is_test::int) * 100000000000000
    + year * 10000000000::bigint + number;

-- Of a link's id, the characters that tell the millisecond of its making: it names hardly more than one link.
create function link_moment(link_id text) returns text
  language sql immutable strict parallel safe
  return substr(link_id, 6, 7);

-- A receipt of a payment, or the credit note of a refund.
create table documents (
  happened_at timestamptz not null,
  issued_at timestamptz not null default now(),
  voided_at timestamptz,
  -- of the payment or refund, where the merchant's days begin
  year int not null,
  number int not null check (number > 0),
  log_index int not null,
  is_test boolean not null default false,
  id text primary key,
  user_id text not null,
  kind text not null check (kind in ('RECEIPT', 'CREDIT_NOTE')),
  -- the link that was paid; of a reusable one the payment's own
  link_id text not null,
  network text not null check (network in ('base', 'base-sepolia')),
  -- the transfer that the document is about (with log_index)
  tx_hash bytea not null,
  block_hash bytea not null,
  refund_id text,
  -- a credit note's receipt; none when the money that goes back paid no link
  receipt_id text references documents on delete cascade,
  amount_units numeric(78, 0) not null check (amount_units > 0),
  -- what it was issued in; null: not recorded, of one issued long ago
  language text
    check (language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')),
  -- what is printed, as it was when the number was given
  facts jsonb not null,
  void_reason text check (void_reason in ('REORGANISED', 'REASSIGNED')),
  constraint documents_lengths_check check (octet_length(tx_hash) = 32 and octet_length(block_hash) = 32),
  check ((kind = 'CREDIT_NOTE') = (refund_id is not null)),
  check ((voided_at is null) = (void_reason is null))
);
-- Merchant, transfer and number are in the indexes as 16, 16 and 8 bytes: with their whole the indexes would be as large as the rows.
-- a number is used once; serves: the documents of a month in the order of their numbers
create unique index documents_owner_place_key
  on documents (owner_key(user_id), document_place(kind, is_test, year, number));
-- A transfer has one valid document of each kind. It can be one merchant's refund and pay another's link: it has a credit note and a receipt
-- then.
create unique index documents_transfer_digest_key
  on documents (log_digest(network, tx_hash, log_index), kind) where voided_at is null;
-- serves: a merchant's documents, newest first, and those of a month; of one time they are sorted by number
create index documents_owner_happened on documents (owner_key(user_id), happened_at desc);
-- serves: the documents of a link, in entries of 16 bytes
create index documents_link_moment on documents (link_moment(link_id));
-- serves: the credit notes of a receipt
create index documents_receipt on documents (receipt_id) where receipt_id is not null;
