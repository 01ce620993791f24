-- Most transfers have no description, and each still took an entry, which nothing looks up.

-- serves: the list's search by a part of a description
create index concurrently transactions_described on transactions using gin (description gin_trgm_ops)
  with (gin_pending_list_limit = 512) where is_settled and description <> '';
drop index concurrently if exists transactions_description;
