-- Payments settled for somebody else's resource: without a link, on behalf of the user whose API key asked.
alter table payments alter column link_id drop not null;
alter table payments add column facilitator_user_id text references users on delete cascade;
alter table payments add constraint payments_one_purpose check (num_nonnulls(link_id, facilitator_user_id) = 1);

-- serves: depth of facilitated payments, which have no transfer row when neither side is a wallet of ours
create index payments_facilitated_mined on payments (network, block_number)
  where link_id is null and state = 'MINED';
