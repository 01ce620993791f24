/** What the server sends for a payment link: readable and payable without a script, and locked down. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { getAddress } from "viem";
import type { PublicLinkData } from "../../api/links/wire.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { type PayerSide, startPayerSide, waitFor } from "../links/payer-side.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { openClient } from "../support/http-client.ts";

let side: PayerSide;
beforeAll(async () => {
  side = await startPayerSide();
}, 120_000);
afterAll(() => side?.world.stop());

async function read(linkId: string, init: { query?: string; headers?: Record<string, string> } = {}) {
  const answer = await fetch(`${side.world.baseUrl}/pay/${linkId}${init.query ?? ""}`, {
    headers: { "accept-encoding": "identity", ...init.headers },
  });
  const whole = await answer.text();
  const block = /<script type="application\/json" id="page">(.*?)<\/script>/s.exec(whole);
  // the data holds every text of the language, shown or not
  const text = block ? whole.replace(block[0], "") : whole;
  return { status: answer.status, headers: answer.headers, text, block: block?.[1] ?? "" };
}

const data = async (linkId: string): Promise<PublicLinkData> =>
  (await openClient(side.world.baseUrl).get(`/api/v1/public/payment-links/${linkId}/data`)).body;

async function makeLink(fields: Record<string, unknown> = {}): Promise<string> {
  const given = { amount: 12.5, description: "Two coffees and a book", ...fields };
  const { status, body } = await side.ann.client.post("/v1/payment-links", given);
  expect(status).toBe(201);
  return body.id;
}

describe("an open link", () => {
  test("shows amount, merchant, description, unique amount, checksummed address, network and a QR code", async () => {
    const id = await makeLink();
    const { payAmount } = await data(id);
    const { status, headers, text } = await read(id);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(text).toContain("<bdi>12.50</bdi>");
    expect(text).toContain(side.ann.email.split("@")[0] ?? "");
    expect(text).toContain("Two coffees and a book");
    expect(payAmount).toBeGreaterThan(12.5);
    expect(text).toContain(`<bdi>${payAmount?.toFixed(6)}</bdi> USDC<`);
    expect(text).toContain(getAddress(side.wallet));
    expect(text).toContain("Send only USDC on Base Sepolia.");
    expect(text).toMatch(/<svg class="qr"[^>]*>.*<path fill="#000" d="M/s);
  });

  test("escapes what the merchant wrote, in the page and in the data for the script", async () => {
    const id = await makeLink({ description: `</script><img src=x onerror="alert(1)">&'` });
    const { text, block } = await read(id);
    expect(text + block).not.toContain("<img src=x");
    expect(text).toContain("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&#39;");
    expect(JSON.parse(block).link.description).toBe(`</script><img src=x onerror="alert(1)">&'`);
  });

  test("is sent with a policy that lets nothing inline or foreign run", async () => {
    const { headers, text, block } = await read(await makeLink());
    const policy = headers.get("content-security-policy") ?? "";
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ])
      expect(policy.split("; ")).toContain(rule);
    expect(policy).not.toContain("unsafe");
    // no wallet outside the browser is offered unless one is configured
    expect(policy.split("; ")).toContain("connect-src 'self'");
    expect(policy).not.toMatch(/frame-src|https?:|wss?:/);
    expect(text + block).not.toMatch(/further-?wallets/i);
    expect(headers.get("cross-origin-opener-policy")).toBe("same-origin-allow-popups");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(text).not.toMatch(/\sstyle=|\son[a-z]+=/);
    const inline = [...text.matchAll(/<script([^>]*)>/g)].map(([, attributes]) => attributes);
    expect(
      inline.every((attributes) => /src="\/assets\/|type="application\/json"/.test(attributes ?? "")),
    ).toBe(true);
  });

  test("carries a preview for chats: title, text, address and picture", async () => {
    const id = await makeLink();
    const { text } = await read(id);
    expect(text).toContain(`<meta property="og:title" content="12.50 USDC · `);
    expect(text).toContain(`<meta property="og:url" content="${side.world.baseUrl}/pay/${id}">`);
    expect(text).toContain(`<meta name="robots" content="noindex">`);
    const picture = /property="og:image" content="([^"]+)"/.exec(text)?.[1] ?? "";
    const answer = await fetch(picture);
    expect(answer.headers.get("content-type")).toBe("image/png");
    expect([...new Uint8Array(await answer.arrayBuffer()).slice(1, 4)]).toEqual([0x50, 0x4e, 0x47]);
  });

  test("is compressed for a client that accepts gzip, and reading it does not change the link", async () => {
    const id = await makeLink();
    const [before] = await side.world.sql`select * from payment_links where id = ${id}`;
    const answer = await read(id, { headers: { "accept-encoding": "gzip" } });
    expect(answer.headers.get("content-encoding")).toBe("gzip");
    expect(answer.text).toContain("12.50");
    expect((await side.world.sql`select * from payment_links where id = ${id}`)[0]).toEqual(before);
  });
});

describe("a link that cannot be paid shows neither address nor QR code", () => {
  const expectNoWayToPay = (text: string) => {
    expect(text).not.toContain(`<bdi class="exact`);
    expect(text).not.toContain(`class="qr"`);
  };

  test("cancelled", async () => {
    const id = await makeLink();
    expect((await side.ann.client.post(`/v1/payment-links/${id}/cancel`)).status).toBe(200);
    const { status, text } = await read(id);
    expect(status).toBe(200);
    expect(text).toContain("This link was cancelled");
    expectNoWayToPay(text);
  });

  const end = (id: string, seconds: number) => side.world.sql`
    update payment_links
    set created_at = now() - interval '2 days', expires_at = now() + make_interval(secs => ${seconds})
    where id = ${id}`;

  test("expired, the moment the clock passes its end and not before", async () => {
    const id = await makeLink();
    await end(id, 30);
    expect((await read(id)).text).not.toContain("This link has expired");
    await end(id, 0);
    const { text } = await read(id);
    expect(text).toContain("This link has expired");
    expect(text).not.toContain("Start a new payment");
    expectNoWayToPay(text);
  });

  test("expired, of a reusable link: leads back to it, while an open or cancelled payment does not", async () => {
    const parent = await makeLink({ maxPayments: 3 });
    const open = async (): Promise<string> =>
      (await openClient(side.world.baseUrl).post(`/api/v1/public/payment-links/${parent}/uses`, {})).body
        .linkId;
    const [expired, cancelled] = [await open(), await open()];
    const again = `<a class="plain" href="/pay/${parent}?lang=en">Start a new payment</a>`;
    expect((await read(expired)).text).not.toContain(again);
    await end(expired, 0);
    await side.world.sql`update payment_links set status = 'CANCELLED' where id = ${cancelled}`;
    expect((await read(expired)).text).toContain(again);
    expect((await read(cancelled)).text).not.toContain(again);
  });

  test("paid: who reads it later is not thanked, and sees the transaction", async () => {
    const { id, amountUnits } = await side.makeLink();
    const payer = await newPayer(side.rpcUrl, amountUnits);
    const hash = await sendUsdc(side.rpcUrl, payer, side.wallet, amountUnits);
    await side.waitForStatus(id, "PAID");
    const { text } = await read(id);
    expect(text).toContain("This link is paid. If you did not pay it, somebody else did.");
    expect(text).not.toContain(">Thank you.");
    expect(text).toContain(`${NETWORKS["base-sepolia"].explorerUrl}${hash}`);
    expectNoWayToPay(text);
    expect(await data(id)).toMatchObject({
      transactionHash: hash,
      payer,
      confirmations: 1,
      confirmationsNeeded: 1,
    });
    await side.world.sql`update payment_links set refunded_units = amount_units where id = ${id}`;
    expect((await read(id)).text).toContain("<h2>Refunded</h2>");
    await side.world.sql`update payment_links set refunded_units = amount_units - 1 where id = ${id}`;
    expect((await read(id)).text).toContain("<h2>Partly refunded</h2>");
  });

  test("unknown: a page with status 404, also for a malformed id", async () => {
    for (const id of ["link_AAAAAAAAAAAAAAAAAAAAAA", "nonsense", "%00", "..%2f"]) {
      const { status, text } = await read(id);
      expect(status).toBe(404);
      expect(text).toContain(id === "%2e%2e" ? "" : "Payment link not found");
    }
  });
});

test("a link with an uncertain payment shows that, and can be paid", async () => {
  const { id } = await side.makeLink();
  expect((await read(id)).text).not.toContain("An earlier payment is still being checked.");
  await side.world.sql`
    insert into payments (
      id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce, signature,
      state, reason, doubt_since, doubt_until
    )
    select
      'pay_AAAAAAAAAAAAAAAAAAAAAA', id, network, ${NETWORKS["base-sepolia"].usdc.address}, ${side.payer}, 'EOA', recipient,
      amount_units, 0, 4102444800, ${`0x${"12".repeat(32)}`}, '', 'FAILED', 'INTERNAL_ERROR', now(), now() + interval '1 hour'
    from payment_links
    where id = ${id}`;
  const { text } = await read(id);
  expect(text).toContain("An earlier payment is still being checked.");
  expect(text).toContain(`class="qr"`);
});

describe("languages", () => {
  test("the URL wins over the browser, the browser's preferences decide next, and English is the fallback", async () => {
    const id = await makeLink();
    const languageOf = async (query: string, accepted: string) =>
      /<html lang="([^"]+)" dir="([^"]+)">/
        .exec((await read(id, { query, headers: { "accept-language": accepted } })).text)
        ?.slice(1);
    expect(await languageOf("", "xx, ar;q=0.5, de;q=0.9")).toEqual(["de", "ltr"]);
    expect(await languageOf("?lang=ar", "de")).toEqual(["ar", "rtl"]);
    expect(await languageOf("?lang=xx", "pt-PT")).toEqual(["pt-BR", "ltr"]);
    expect(await languageOf("", "zh-TW")).toEqual(["zh-Hans", "ltr"]);
    expect(await languageOf("", "en;q=0, fr;q=0.1")).toEqual(["fr", "ltr"]);
    expect(await languageOf("", "xx")).toEqual(["en", "ltr"]);
  });
});

describe("the link's public data", () => {
  test("names the token, the recipient in mixed case and the server's time", async () => {
    const id = await makeLink();
    const body = await data(id);
    const { usdc, explorerUrl } = NETWORKS["base-sepolia"];
    expect(body).toMatchObject({
      token: usdc,
      explorerUrl,
      recipientChecksumAddress: getAddress(side.wallet),
      tag: linkTag(id),
      ...{ paidAt: null, transactionHash: null, payer: null, confirmations: null, refundedAmount: 0 },
    });
    expect(Math.abs(Date.parse(body.now) - Date.now())).toBeLessThan(10_000);
  });

  test("does not show who pays before the link is paid", async () => {
    const { id, amountUnits } = await side.makeLink();
    await side.world.sql`update payment_links set status = 'PENDING' where id = ${id}`;
    await side.world.sql`
      insert into transfers (
        network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, link_id, pays
      )
      select network, number, bytes_of(hash), now(), ${`0x${"ab".repeat(32)}`}, 999, ${side.payer}, ${side.wallet}, ${amountUnits}::bigint, ${id}, true
      from cursors`;
    const body = await waitFor("a confirmation", async () => {
      const read = await data(id);
      return read.confirmations === 1 && read;
    });
    expect(body).toMatchObject({ status: "PENDING", payable: false, transactionHash: null, payer: null });
    await side.world.sql`delete from transfers where link_id = ${id}`;
  });
});

describe("assets", () => {
  test("are named by their content, cached permanently, and compressed as the client prefers", async () => {
    const { text } = await read(await makeLink());
    const script = /<script type="module" src="([^"]+)">/.exec(text)?.[1] ?? "";
    const ask = (encodings: string) =>
      fetch(side.world.baseUrl + script, { headers: { "accept-encoding": encodings } });
    expect(script).toMatch(/^\/assets\/checkout-[0-9a-f]{10}\.js$/);
    const best = await ask("gzip, br");
    expect(best.headers.get("content-encoding")).toBe("br");
    expect(best.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect((await ask("gzip")).headers.get("content-encoding")).toBe("gzip");
    const plain = await ask("identity");
    expect(plain.headers.get("content-encoding")).toBeNull();
    expect(await plain.text()).toBe(await best.text());
  });

  test("unknown names are 404 without a body", async () => {
    for (const name of ["nothing.js", "manifest.json", "..%2fmanifest.json"]) {
      const answer = await fetch(`${side.world.baseUrl}/assets/${name}`);
      expect(answer.status).toBe(404);
      expect(await answer.text()).toBe("");
    }
  });
});
