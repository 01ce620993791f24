-- A standby that is promoted without the last transactions of its primary keeps the epoch of what it has, so a cursor into the lost
-- part names a known epoch. Nor is it enough that the cursor's own event survived: a transaction with a lower number, which a reader sees
-- earlier, may have committed later and be lost. So each event says below which number every transaction had ended when it was written:
-- their commits precede its own in the write-ahead log, and survive wherever it survives. What lies between is compared one by one
-- (listEvents in db/events/event-log.ts).
--
-- Null for what was written before: only the event itself is compared then.
alter table events add column ended_before xid8;
alter table events alter column ended_before set default pg_snapshot_xmin(pg_current_snapshot());
