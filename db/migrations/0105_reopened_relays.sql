-- A relay whose block left the chain: it was in no mempool when it was sent again, so its bytes are judged like new ones.
alter table relays add column is_reopened boolean not null default false;
