-- What shows which link a transfer pays: link tags, unique amounts, proven claims, the merchant's own assignments. And what was ambiguous.

alter table payment_links
  -- first 16 bytes of keccak256("link-tag:" + id); filled by the migration runner for links made before
  add column tag text check (tag ~ '^0x[0-9a-f]*$' and length(tag) = 34),
  -- an amount that asks for this link alone, for people who type it
  add column pay_amount_units bigint check (pay_amount_units > amount_units),
  -- the indexer's cursor when the link was made: only transfers of later blocks can pay it
  add column created_block bigint,
  -- what decided that the paying transfer pays it
  add column settled_by text check (
    settled_by in ('authorization', 'tag', 'proof', 'early_claim', 'pay_amount', 'amount', 'merchant')
  );
-- serves: which link does a tag name
create unique index payment_links_tag_key on payment_links (tag);
-- serves: which unpaid link does a transfer of this unique amount fit
create index payment_links_pay_amount on payment_links (network, recipient, pay_amount_units, expires_at)
  where status <> 'PAID' and pay_amount_units is not null;

-- Unique amounts of a wallet, each reserved for the link that had it last.
create table pay_amounts (
  network text not null check (network in ('base', 'base-sepolia')),
  recipient text not null,
  units bigint not null,
  link_id text not null references payment_links on delete cascade,
  used_at timestamptz not null default now(),
  primary key (network, recipient, units)
);

alter table payments
  -- the indexer's cursor when the authorization was first accepted
  add column accepted_block bigint;

alter table transfers
  add column settled_by text check (
    settled_by in ('authorization', 'tag', 'proof', 'early_claim', 'pay_amount', 'amount', 'merchant')
  ),
  -- links that fitted at the transfer's block when nothing decided between them
  add column candidates text[] check (candidates is null or (cardinality(candidates) > 0 and link_id is null));

alter table claims
  -- how the claimant showed that it made the transfer: an EIP-712 signature of its key, or its contract's word (ERC-1271)
  add column proof text check (proof in ('EOA', 'CONTRACT')),
  -- stored before the transfer was seen in a block
  add column is_early boolean not null default true,
  drop constraint claims_state_check,
  -- HINT: late or contested, decides nothing. DISPUTED: proven, but the transfer has paid another link
  add constraint claims_state_check check (state in ('OPEN', 'HINT', 'DISPUTED', 'MATCHED', 'REJECTED', 'EXPIRED'));
-- serves: proofs that wait for the merchant to free their transfer
create index claims_disputed on claims (network) where state = 'DISPUTED';

alter table transactions
  add column settled_by text,
  add column candidates text[];

alter table users
  -- 'early': a claim made before the block decides between links of one price; 'proven': only signed claims do
  add column claim_policy text not null default 'early' check (claim_policy in ('early', 'proven')),
  -- whether a transfer of a link's exact amount pays it without further evidence
  add column match_by_amount boolean not null default true;

-- A merchant's own decisions about transfers, kept by place in the chain: applied again after a reorganisation and a rebuild.
create table assignments (
  network text not null check (network in ('base', 'base-sepolia')),
  tx_hash text not null,
  log_index int not null,
  user_id text not null references users on delete cascade,
  -- null: no link, whatever amount or early claim says
  link_id text references payment_links on delete cascade,
  -- pays its link although the value differs
  accept boolean not null default false,
  updated_at timestamptz not null default now(),
  primary key (network, tx_hash, log_index)
);

-- serves: links made in blocks that a reorganisation took away
create index payment_links_created_block on payment_links using brin (created_block);

-- A payer who typed the unique amount, or whose other value the merchant accepted, paid something else than was asked: sums are of what came.
alter table payment_links add column paid_units bigint check (paid_units > 0);

create or replace function count_added_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, count(*), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from added
  group by 1, 2;
  return null;
end $$;

create or replace function count_removed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, -count(*), -sum(coalesce(paid_units, amount_units)), -sum(refunded_units)
  from removed
  group by 1, 2;
  return null;
end $$;

create or replace function count_changed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, sum(n), sum(n * units), sum(n * refunded_units)
  from (
    select user_id, status, coalesce(paid_units, amount_units) as units, refunded_units, 1 as n from added
    union all
    select user_id, status, coalesce(paid_units, amount_units), refunded_units, -1 from removed
  ) changed
  group by 1, 2
  having sum(n) <> 0 or sum(n * units) <> 0 or sum(n * refunded_units) <> 0;
  return null;
end $$;
