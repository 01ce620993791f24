/** A merchant's own exchange rates over HTTP: entered, listed, limited, and by whom. Run in a world that is started. */
import { expect, test } from "bun:test";
import { OWN_RATES_AT_ONCE_MAX, OWN_RATES_MAX } from "../../core/domain/exchange-rate.ts";
import { lockOwnRates } from "../../db/exports/exchange-rates.ts";
import type { MerchantWorld } from "../links/merchant-world.ts";
import { openClient } from "../support/http-client.ts";
import { waitFor } from "../support/relay-lab.ts";
import { signUp } from "../support/sign-up.ts";

export function testOwnRates(world: () => MerchantWorld): void {
  test("are entered day by day, and listed newest first with equal days as one period", async () => {
    const { client } = await signUp(world().baseUrl);
    const listed = async (query: string) => (await client.get(`/v1/exchange-rates/own?${query}`)).body.data;
    expect(await listed("currency=EUR")).toEqual({ periods: [], nextBefore: null, currencies: [] });
    const rates = [
      { date: "2026-03-03", rate: "0.92" },
      { date: "2026-03-01", rate: "0.9" },
      { date: "2026-03-02", rate: "0.90" },
      { date: "2026-03-05", rate: "0.9" },
    ];
    const stored = await client.post("/v1/exchange-rates/own", { currency: "EUR", rates });
    expect([stored.status, stored.body.data]).toEqual([
      200,
      { currency: "EUR", dateFrom: "2026-03-01", dateTo: "2026-03-05", days: 4 },
    ]);
    const { periods, currencies } = await listed("currency=EUR");
    expect(periods).toEqual([
      { dateFrom: "2026-03-05", dateTo: "2026-03-05", rate: "0.9", enteredAt: expect.any(String) },
      { dateFrom: "2026-03-03", dateTo: "2026-03-03", rate: "0.92", enteredAt: expect.any(String) },
      { dateFrom: "2026-03-01", dateTo: "2026-03-02", rate: "0.9", enteredAt: expect.any(String) },
    ]);
    expect(currencies).toEqual([{ currency: "EUR", days: 4 }]);
    const twice = { currency: "EUR", rates: [rates[0], rates[0]] };
    expect((await client.post("/v1/exchange-rates/own", twice)).status).toBe(400);
    // a period is removed as it is listed, also one of more days than a request may enter
    const equal = Array.from({ length: 400 }, (_, n) => ({
      date: new Date(Date.UTC(2024, 0, 1 + n)).toISOString().slice(0, 10),
      rate: "3.6725",
    }));
    await client.post("/v1/exchange-rates/own", { currency: "AED", rates: equal });
    const [year] = (await listed("currency=AED")).periods;
    expect([year.dateFrom, year.dateTo]).toEqual(["2024-01-01", "2025-02-03"]);
    const period = { currency: "AED", dateFrom: year.dateFrom, dateTo: year.dateTo };
    expect((await client.post("/v1/exchange-rates", { ...period, rate: "3.7" })).status).toBe(400);
    expect((await client.post("/v1/exchange-rates", { ...period, rate: null })).status).toBe(200);
    expect((await listed("currency=AED")).periods).toEqual([]);
    const backwards = { ...period, dateFrom: year.dateTo, dateTo: year.dateFrom, rate: null };
    expect((await client.post("/v1/exchange-rates", backwards)).status).toBe(400);
    // 51 periods: every other day
    const many = Array.from({ length: 51 }, (_, n) => ({
      date: new Date(Date.UTC(2025, 0, 1 + 2 * n)).toISOString().slice(0, 10),
      rate: "7.1",
    }));
    await client.post("/v1/exchange-rates/own", { currency: "SEK", rates: many });
    const page = await listed("currency=SEK");
    expect([page.periods.length, page.nextBefore]).toEqual([50, "2025-01-03"]);
    const rest = await listed(`currency=SEK&before=${page.nextBefore}`);
    expect([rest.periods.map(({ dateFrom }: { dateFrom: string }) => dateFrom), rest.nextBefore]).toEqual([
      ["2025-01-01"],
      null,
    ]);
  });

  test("are accepted a thousand per request, and no more than an account may have", async () => {
    const { client, userId } = await signUp(world().baseUrl);
    const days = (count: number) =>
      Array.from({ length: count }, (_, n) => ({
        date: new Date(Date.UTC(2020, 0, 1 + n)).toISOString().slice(0, 10),
        rate: "1",
      }));
    const enter = (rates: unknown) => client.post("/v1/exchange-rates/own", { currency: "EUR", rates });
    expect((await enter(days(OWN_RATES_AT_ONCE_MAX + 1))).status).toBe(400);
    expect((await enter(days(OWN_RATES_AT_ONCE_MAX))).status).toBe(200);
    await world().sql`
      insert into merchant_rates (user_id, currency, day, rate_e10)
      select ${userId}, 'CHF', date '1950-01-01' + n, 1
      from generate_series(1, ${OWN_RATES_MAX - OWN_RATES_AT_ONCE_MAX - 1}::int) n`;
    const one = (date: string) =>
      client.post("/v1/exchange-rates", { currency: "GBP", dateFrom: date, dateTo: date, rate: "0.8" });
    // two at the same time for the last place: the second waits for the first, and counts it
    const both = await world().sql.begin(async (tx) => {
      await lockOwnRates(tx, userId);
      const asked = [one("2026-01-01"), one("2026-01-02")];
      await waitFor("both to wait for the lock", async () => {
        const waiting = await world().sql`
          select
          from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'`;
        return waiting.length >= 2;
      });
      return asked;
    });
    const answers = await Promise.all(both);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const refused = answers.find(({ status }) => status === 409);
    expect(refused?.body.error.details.issue).toBe("too_many");
    // what replaces a rate takes no place, and what removes one gives a place back
    expect((await enter(days(10))).status).toBe(200);
    expect((await enter([{ date: "2030-01-01", rate: "1" }])).status).toBe(409);
    const first = { currency: "EUR", dateFrom: "2020-01-01", dateTo: "2020-01-01" };
    await client.post("/v1/exchange-rates", { ...first, rate: null });
    expect((await enter([{ date: "2030-01-01", rate: "1" }])).status).toBe(200);
  });

  test("are entered with an API key that has the scope exports, and with no other key", async () => {
    const { client } = await signUp(world().baseUrl);
    const enterWith = async (scope: string) => {
      const made = await client.post("/v1/api-keys", { name: scope, scopes: [scope] });
      const authorization = `Bearer ${made.body.data.key}`;
      const given = { currency: "EUR", dateFrom: "2026-01-01", dateTo: "2026-01-01", rate: "0.9" };
      return (await openClient(world().baseUrl).post("/v1/exchange-rates", given, { authorization })).status;
    };
    expect(await enterWith("exports")).toBe(200);
    expect(await enterWith("transactions:read")).toBe(403);
  });
}
