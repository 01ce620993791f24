-- A page has room for nine payments and the versions that are signed at once: an eighth of these went to other pages before.
alter table payments set (fillfactor = 46);

-- A link goes with its wallet, whose row its writer has locked already, instead of with its user; documents and their numbers go with
-- neither. Each check of these keys locked the user's row, and wrote that into the log.
alter table payment_links
  drop constraint payment_links_user_id_fkey,
  add constraint payment_links_wallet_fkey foreign key (network, recipient) references wallets (network, address) on delete cascade not valid;
alter table documents drop constraint documents_user_id_fkey;
alter table document_counters drop constraint document_counters_user_id_fkey;
