-- serves: the transfers of a link that do not pay it, for its exception
create index transfers_misfit_link on transfers (link_id) where link_id is not null and not pays;
