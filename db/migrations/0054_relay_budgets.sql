-- What relays cost, counted against budgets by UTC day.

-- One row a budget and day. Scopes and units: FEES (wei, subject: the network), MERCHANT (gas, subject: the user whose links or
-- API key were served), REVERTED (gas, subject: a contract payer's implementation).
create table relay_budgets (
  network text not null check (network in ('base', 'base-sepolia')),
  scope text not null check (scope in ('FEES', 'MERCHANT', 'REVERTED')),
  subject text not null,
  day date not null,
  -- of transactions that no block holds: the most they can cost
  reserved numeric(78, 0) not null default 0 check (reserved >= 0),
  -- of mined transactions
  used numeric(78, 0) not null default 0 check (used >= 0),
  -- the limit at the newest reservation; null: none
  maximum numeric(78, 0),
  primary key (network, scope, subject, day)
);
-- serves: deleting old days
create index relay_budgets_day on relay_budgets (day);

-- What one relay counts for in each budget; always in the day it was signed.
create table relay_charges (
  relay_id bigint not null references relays on delete cascade,
  network text not null,
  scope text not null,
  subject text not null,
  day date not null,
  -- payments of this subject that the relay carries
  items int not null,
  amount numeric(78, 0) not null check (amount >= 0),
  -- amount is what it did cost, not what it may cost
  settled boolean not null default false,
  primary key (relay_id, scope, subject),
  foreign key (network, scope, subject, day) references relay_budgets on delete cascade
);
-- serves: deleting old days
create index relay_charges_budget on relay_charges (network, scope, subject, day);

-- today's fees so far
insert into relay_budgets (network, scope, subject, day, used)
select network, 'FEES', network, (now() at time zone 'utc')::date, sum(fee_wei)
from relays
where mined_at >= date_trunc('day', now(), 'utc') and fee_wei is not null
group by network;

-- the one reader of this index counted the fees of a day
drop index relays_mined_at;
