-- serves: the refunds of a transfer, whichever link it was booked on when they were prepared
create index concurrently refunds_paid on refunds using hash (paid_tx_hash);
