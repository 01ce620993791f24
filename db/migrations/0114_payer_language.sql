-- The language a payer's page was shown in, the one a merchant's documents have otherwise, and the one each document was issued in.
-- Not validated: existing rows have none, and reading them all would hold up payments.
alter table payments add column payer_language text;
alter table payments add constraint payments_payer_language_check
  check (payer_language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')) not valid;

alter table merchant_books add column document_language text not null default 'en'
  check (document_language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans'));

-- null: issued before documents had a language
alter table documents add column language text;
alter table documents add constraint documents_language_check
  check (language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')) not valid;
