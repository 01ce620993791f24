-- Whoever moves decisions with their transfers locks no link before all links of its blocks are locked in order (db/ledger/moved-assignments.ts).
alter table assignments
  alter constraint assignments_link_id_fkey deferrable initially immediate;
