-- Every five digits in a row of a description and a reference, as one number each. Two numbers of six digits that share four of them share
-- trigrams, but no part.
create function number_parts(description text, reference text) returns int[]
  language plpgsql immutable parallel safe as $$
declare
  words text := coalesce(description, '') || ' ' || coalesce(reference, '');
  parts int[];
  digits text;
begin
  foreach digits in array regexp_split_to_array(words, '[^0-9]+') loop
    for start in 1 .. length(digits) - 4 loop
      parts := parts || substr(digits, start, 5)::int;
    end loop;
  end loop;
  return parts;
end $$;
