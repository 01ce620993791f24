-- serves: a merchant's void documents, newest first of each kind
create index concurrently documents_void on documents (owner_key(user_id), kind, happened_at desc) where voided_at is not null;
-- serves: a merchant's credit notes, newest first
create index concurrently documents_credit_notes on documents (owner_key(user_id), happened_at desc) where kind = 'CREDIT_NOTE';
-- serves: the documents of a reusable link's payments, newest first, in entries of 28 bytes; those of other links are not in it
create index concurrently documents_of_uses on documents (link_moment(coalesce(facts ->> 'linkId', facts ->> 7)), happened_at desc)
  where coalesce(facts ->> 'linkId', facts ->> 7) <> link_id;
-- serves: the credit notes among them
create index concurrently documents_credit_notes_of_uses on documents (link_moment(coalesce(facts ->> 'linkId', facts ->> 7)), happened_at desc)
  where coalesce(facts ->> 'linkId', facts ->> 7) <> link_id and kind = 'CREDIT_NOTE';
-- serves: the void ones among them
create index concurrently documents_void_of_uses on documents (link_moment(coalesce(facts ->> 'linkId', facts ->> 7)), happened_at desc)
  where coalesce(facts ->> 'linkId', facts ->> 7) <> link_id and voided_at is not null;
