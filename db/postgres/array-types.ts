/**
 * Postgres' array types by the types of their elements, as pg_type has them: numbers of built-in types never change. The driver would query
 * them on each new connection, which costs the server as much as opening it.
 */
const ARRAY_OF: Readonly<Record<number, number>> = {
  16: 1000, // bool
  17: 1001, // bytea
  18: 1002, // char
  19: 1003, // name
  20: 1016, // int8
  21: 1005, // int2
  23: 1007, // int4
  25: 1009, // text
  26: 1028, // oid
  114: 199, // json
  700: 1021, // float4
  701: 1022, // float8
  869: 1041, // inet
  1043: 1015, // varchar
  1082: 1182, // date
  1114: 1115, // timestamp
  1184: 1185, // timestamptz
  1186: 1187, // interval
  1700: 1231, // numeric
  2950: 2951, // uuid
  3802: 3807, // jsonb
  5069: 271, // xid8
};

/** Options of the patched driver: no query of types when a connection opens. */
export const KNOWN_ARRAY_TYPES: object = { fetch_types: false, array_types: ARRAY_OF };
