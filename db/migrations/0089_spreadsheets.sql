-- Exports as spreadsheets: XLSX, and CSV as Excel opens it by a double click.

alter table exports
  drop constraint exports_format_check,
  add constraint exports_format_check check (format in ('csv', 'json', 'text', 'pdf', 'xlsx', 'excel_csv'));
