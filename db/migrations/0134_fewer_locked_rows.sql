-- A trigger before the update of a row locks each row before it is replaced, also where its condition is not met: a record of the log
-- for each payment that settles. After the update only the rows it concerns are looked at.
create function note_changed_reference() returns trigger language plpgsql as $$
begin
  update transactions
  set reference = link.reference
  from (select (select reference from payment_links where id = new.link_id) as reference) link
  where transactions.id = new.id and transactions.reference is distinct from link.reference;
  return null;
end $$;
drop trigger transactions_note_changed_reference on transactions;
create trigger transactions_note_changed_reference after update of link_id on transactions
  for each row when (new.link_id is distinct from old.link_id)
  execute function note_changed_reference();

-- Unique amounts go with their wallet, whose row their writer has locked already, instead of with their link, which it has just written.
-- Without its link an amount is free.
alter table pay_amounts
  drop constraint pay_amounts_link_id_fkey,
  add constraint pay_amounts_wallet_fkey foreign key (network, recipient) references wallets (network, address) on delete cascade not valid;
