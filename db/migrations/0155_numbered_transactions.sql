-- serves: the list's search by a number of five digits or more, as of an order. The trigrams of its digits are in tens of thousands of rows of
-- a large history, each of its parts in a hundred.
create index concurrently transactions_numbered on transactions using gin (number_parts(description, reference))
  with (gin_pending_list_limit = 512) where is_settled and (description ~ '[0-9]{5}' or reference ~ '[0-9]{5}');
