-- To whom the success of a facilitated payment was told: one payment releases one resource, however often its payload is shown.
alter table payments add column told_to text;
