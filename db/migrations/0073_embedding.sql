-- Origins whose pages may show this merchant's payment pages in a frame or a popup.

alter table merchant_pages
  add column frame_origins text[] not null default '{}' check (cardinality(frame_origins) <= 20);
