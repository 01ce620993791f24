-- A transfer can be one merchant's refund and pay another's link: it has a credit note and a receipt then.
create unique index documents_transfer_kind_key on documents (network, tx_hash, log_index, kind) where voided_at is null;
drop index documents_transfer_key;
