-- How many payments of its link the payer's address had begun within the hour, this one included. Only for uses of links with a maximum of
-- payments; null: unknown, like the first.
alter table payment_links
  add column place_rank smallint;
