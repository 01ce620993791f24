/** A success that is not the service's, such as a sign-in page of the network, is no result. */
import { expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { createClient } from "../../sdk/client.ts";
import { ConnectionError } from "../../sdk/errors.ts";
import { payLink } from "../../sdk/pay-link.ts";

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
