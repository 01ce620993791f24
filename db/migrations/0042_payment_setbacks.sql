-- What went wrong with a payment so far, each kind for itself: a queue that is full or a node that is away is no refusal.

-- since when neither node nor relayer could serve it; null while they can
alter table payments add column unavailable_since timestamptz;
-- transactions of ours that carried it and were mined without settling it
alter table payments add column reverts int not null default 0;
-- its batch reverted as a whole: next time it travels alone
alter table payments add column alone boolean not null default false;

-- serves: how often did this payer's payments cost us gas for nothing
create index payments_reverted on payments (network, payer, updated_at) where reverts > 0;
