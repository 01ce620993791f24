-- Exports as programs for bookkeeping import them, and the numbers that DATEV's format needs.

alter table exports
  drop constraint exports_format_check,
  add constraint exports_format_check check (format in (
    'csv', 'json', 'text', 'pdf', 'xlsx', 'excel_csv', 'xero_csv', 'quickbooks_csv', 'datev', 'camt053'
  ));

-- numbers of the tax adviser, the client and the accounts; null: no DATEV files
alter table merchant_books add column datev jsonb;
