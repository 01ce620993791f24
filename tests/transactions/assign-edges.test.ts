/** Assignments with open claims, and with invalid ids. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import {
  broadcast,
  claim,
  type EvidenceSide,
  historyOf,
  linkOf,
  makeLinks,
  makePerson,
  nextUnits,
  signTransfer,
  startEvidenceSide,
  waitFor,
} from "../links/evidence-side.ts";

let side: EvidenceSide;

beforeAll(async () => {
  side = await startEvidenceSide();
}, 120_000);
afterAll(() => side?.stop());

const confirmed = (hash: Hex) =>
  waitFor("the confirmed transfer", async () =>
    (await historyOf(side, hash)).find(({ status }) => status === "CONFIRMED"),
  );
const post = (path: string, body: object) => side.ann.client.post(path, body);

describe("a transfer assigned while a claim of it is open", () => {
  test("leaves one history row, and the claim is matched", async () => {
    const person = await makePerson(side);
    const units = nextUnits();
    const [linkId = ""] = await makeLinks(side, 1, units);
    const signed = await signTransfer(side, person, { to: side.wallet, units: units - 5_000n });
    expect((await claim(side, linkId, { hash: signed.hash, address: person.address })).body.status).toBe(
      "PENDING",
    );
    const hash: Hex = await broadcast(side, signed);
    const row = await confirmed(hash);
    const { status } = await post(`/v1/transactions/${row.id}/assign`, { linkId, accept: true });
    expect(status).toBe(200);
    expect(await linkOf(side, linkId)).toMatchObject({ status: "PAID", settledBy: "merchant" });
    const rows = await historyOf(side, hash);
    expect(rows.map(({ id, status }) => ({ id, status }))).toEqual([{ id: row.id, status: "CONFIRMED" }]);
  });
});

describe("error: an invalid link id", () => {
  test.each([
    ["with a NUL in it", "pay_\0"],
    ["that is empty", ""],
    ["of 101 characters", "p".repeat(101)],
    ["of 100 characters", "p".repeat(100)],
    ["with half a surrogate pair in it", `${"p".repeat(99)}\ud800`],
  ])("%s", async (_, linkId) => {
    const person = await makePerson(side);
    const hash = await broadcast(
      side,
      await signTransfer(side, person, { to: side.wallet, units: nextUnits() }),
    );
    const row = await confirmed(hash);
    const { status } = await post(`/v1/transactions/${row.id}/assign`, { linkId });
    expect(status).toBe(linkId.length === 100 && linkId.isWellFormed() ? 404 : 400);
  });
});
