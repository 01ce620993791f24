-- The language of the page that made a claim: the receipt of the claimed transfer is issued in it, and nothing
-- else depends on it. Not validated: existing rows have none.
alter table claims add column payer_language text;
alter table claims add constraint claims_payer_language_check
  check (payer_language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')) not valid;
