/** A database error is identified by its SQLSTATE, and nothing else is. */
import { expect, test } from "bun:test";
import { sqlStateOf } from "../../core/runtime/sql-state.ts";

const named = (name: string, code?: unknown) =>
  Object.assign(new Error("m"), { name, ...(code === undefined ? {} : { code }) });

test("only the database's own error has a SQLSTATE", () => {
  expect(sqlStateOf(named("PostgresError", "23505"))).toBe("23505");
  // of the connection or the system
  expect(sqlStateOf(named("Error", "ECONNREFUSED"))).toBeUndefined();
  expect(sqlStateOf(named("PostgresError"))).toBeUndefined();
  expect(sqlStateOf(named("PostgresError", 23_505))).toBeUndefined();
  expect(sqlStateOf({ name: "PostgresError", code: "23505" })).toBeUndefined();
  expect(sqlStateOf(undefined)).toBeUndefined();
});
