-- Documents of test networks are numbered apart, so that the numbers of those about real money have no gap. What is issued keeps its number.
alter table documents add column is_test boolean not null default false;

-- of a test network with TEST_ in front; the version before knows the others alone
alter table document_counters
  drop constraint document_counters_kind_check,
  add constraint document_counters_kind_check check (kind in ('RECEIPT', 'CREDIT_NOTE', 'TEST_RECEIPT', 'TEST_CREDIT_NOTE'));
