-- Numbered receipts and credit notes. A number is never used twice and none is left out: it comes from a counter's row in the transaction
-- that stores the document, so a rolled back document gives its number back.

create table document_counters (
  user_id text not null references users on delete cascade,
  kind text not null check (kind in ('RECEIPT', 'CREDIT_NOTE')),
  year int not null check (year between 2000 and 9999),
  last_number int not null check (last_number > 0),
  primary key (user_id, kind, year)
);

create table documents (
  id text primary key,
  user_id text not null references users on delete cascade,
  kind text not null check (kind in ('RECEIPT', 'CREDIT_NOTE')),
  -- of the payment or refund, where the merchant's days begin
  year int not null,
  number int not null check (number > 0),
  -- the link that was paid; of a reusable one the payment's own
  link_id text not null,
  network text not null check (network in ('base', 'base-sepolia')),
  -- the transfer that the document is about
  tx_hash text not null check (tx_hash ~ '^0x[0-9a-f]{64}$'),
  log_index int not null,
  block_hash text not null check (block_hash ~ '^0x[0-9a-f]{64}$'),
  refund_id text,
  -- a credit note's receipt; none when the money that goes back paid no link
  receipt_id text references documents on delete cascade,
  amount_units numeric(78, 0) not null check (amount_units > 0),
  happened_at timestamptz not null,
  -- what is printed, as it was when the number was given
  facts jsonb not null,
  issued_at timestamptz not null default now(),
  voided_at timestamptz,
  void_reason text check (void_reason in ('REORGANISED', 'REASSIGNED')),
  check ((kind = 'CREDIT_NOTE') = (refund_id is not null)),
  check ((voided_at is null) = (void_reason is null))
);
create unique index documents_number_key on documents (user_id, kind, year, number);
-- one document that is not void for each transfer
create unique index documents_transfer_key on documents (network, tx_hash, log_index) where voided_at is null;
-- serves: the documents of a link
create index documents_link on documents (link_id);
-- serves: a merchant's documents, newest first, and those of a month
create index documents_happened on documents (user_id, happened_at desc, id desc);
-- serves: the credit notes of a receipt
create index documents_receipt on documents (receipt_id) where receipt_id is not null;
