/** A success that is not the service's, such as a sign-in page of the network, is no result. */
import { expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { createClient } from "../../sdk/client.ts";
import { ConnectionError } from "../../sdk/errors.ts";
import { payLink, signPayment } from "../../sdk/pay-link.ts";

const PAGE = { body: "<html>Sign in</html>", type: "text/html; charset=utf-8" };
const CUT = { body: '{"success":true', type: "application/json" };

function clientOf({ body, type }: typeof PAGE) {
  const answer = async () => new Response(body, { headers: { "content-type": type } });
  return createClient({
    baseUrl: "https://pay.example.com",
    retries: 0,
    fetch: answer as unknown as typeof fetch,
  });
}

test("error: a page or a truncated answer instead of JSON is a ConnectionError that names the path", async () => {
  for (const given of [PAGE, CUT])
    await expect(clientOf(given).links.get("link_1")).rejects.toThrow(
      expect.objectContaining({
        name: "ConnectionError",
        message: expect.stringMatching(/^\/v1\/payment-links\/link_1 (was answered by|returned) something /),
      }),
    );
});

test("error: a page instead of an export's file is not a file", async () => {
  await expect(clientOf(PAGE).transactions.export({ format: "csv" })).rejects.toBeInstanceOf(ConnectionError);
});

test("error: a link answered by another program is not signed for, and the error says so", async () => {
  const answer = (async () => new Response("<html>", { status: 502 })) as unknown as typeof fetch;
  const paying = payLink(
    "https://pay.example.com/v1/x402/link_1",
    privateKeyToAccount(generatePrivateKey()),
    {
      ...{ maxAmount: 1, fetch: answer },
    },
  );
  await expect(paying).rejects.toThrow(
    expect.objectContaining({
      name: "ConnectionError",
      message: "The response is not a payment link's (502); nothing was signed",
    }),
  );
});

test("error: a redirected request that changes something is refused, not repeated as a GET", async () => {
  const methods: string[] = [];
  const server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch(request) {
      methods.push(request.method);
      const { pathname } = new URL(request.url);
      return pathname.endsWith("/") ? Response.json({ links: [] }) : Response.redirect(`${pathname}/`, 301);
    },
  });
  try {
    const { links } = createClient({ baseUrl: `http://127.0.0.1:${server.port}` });
    await expect(links.create({ amount: 1, description: "d" })).rejects.toThrow(
      expect.objectContaining({
        name: "ApiError",
        status: 301,
        message: "Redirected to /v1/payment-links/",
      }),
    );
    expect(methods).toEqual(["POST"]);
  } finally {
    await server.stop();
  }
});

test.each(["-1", "0x1", "1.5", "", "9".repeat(31), 100_000])(
  "error: an amount of %p is invalid, and nothing is signed",
  async (amount) => {
    const asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
    const item = { amount, asset, chainId: 84_532, maxTimeoutSeconds: 300 };
    const odd = (async () => Response.json({ accepts: [item] }, { status: 402 })) as unknown as typeof fetch;
    const account = privateKeyToAccount(generatePrivateKey());
    const signing = signPayment("http://localhost/v1/x402/link_x", account, { maxAmount: 9e9, fetch: odd });
    await expect(signing).rejects.toMatchObject({ code: "NOT_PAYABLE" });
  },
);
