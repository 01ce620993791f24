-- Exports in further formats: which there are is the code's to say.

alter table exports
  drop constraint exports_format_check,
  add constraint exports_format_check check (format ~ '^[a-z][a-z0-9_]{1,31}$');
