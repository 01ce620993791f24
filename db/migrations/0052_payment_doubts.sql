-- A payment that ended while no node answered may have been executed by somebody else all the same. Until `doubt_until` the link's next
-- payment asks the chain about it before anything is signed.
alter table payments
  add column doubt_since timestamptz,
  add column doubt_until timestamptz,
  add constraint payments_doubt_check check ((doubt_since is null) = (doubt_until is null));

-- serves: the open doubts of a link
create index payments_doubtful on payments (link_id) where doubt_until is not null;
