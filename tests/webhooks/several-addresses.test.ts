/** A receiver whose name has several addresses: what is checked of them, and which one gets the message. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { type Lookup, postWebhook, WebhookError } from "../../worker/webhooks/public-request.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

/** Loopback too, where the receiver does not listen. */
const [DEAD, HANGING] = ["127.0.0.2", "127.0.0.3"];
let receiver: Receiver;
let hanging: Server | undefined;
beforeEach(() => {
  receiver = startReceiver();
});
afterEach(async () => {
  hanging?.close();
  hanging = undefined;
  await receiver.stop();
});

const portOf = () => Number(new URL(receiver.url).port);

function post(addresses: readonly string[], { allowPrivate = true, protocol = "http" } = {}) {
  let asked = 0;
  const lookup: Lookup = async (host) => {
    expect(host).toBe("shop.example.test");
    asked += 1;
    return addresses.map((address) => ({ address }));
  };
  const url = new URL(`${protocol}://shop.example.test:${portOf()}/`);
  const answer = postWebhook(url, { headers: { "webhook-id": "evt" }, body: "{}", allowPrivate, lookup });
  return answer.finally(() => expect(asked).toBe(1));
}

test("the next one gets the message when one refuses the connection", async () => {
  expect(await post([DEAD, "127.0.0.1"])).toMatchObject({ status: 200 });
  expect(receiver.received.map(({ id }) => id)).toEqual(["evt"]);
});

test("the next one gets it when one accepts the connection and says nothing to the handshake", async () => {
  const silent = createServer();
  hanging = silent;
  await new Promise<void>((resolve) => silent.listen(portOf(), HANGING, resolve));
  const startedMs = performance.now();
  // the receiver speaks no TLS: that it was asked is what counts
  const failure = await post([HANGING, "127.0.0.1"], { protocol: "https" }).catch((error) => error);
  expect(failure.message).toContain("offered no TLS connection");
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(2_900);
});

test("no other one gets it when one has taken it without an answer", async () => {
  const silent = createServer((socket) => socket.once("data", () => socket.destroy()));
  hanging = silent;
  await new Promise<void>((resolve) => silent.listen(portOf(), HANGING, resolve));
  const failure = await post([HANGING, "127.0.0.1"]).catch((error) => error);
  expect(failure).toBeInstanceOf(WebhookError);
  expect(receiver.received).toEqual([]);
});

test("error: the reason is the last one's when none accepts a connection, of three at most", async () => {
  const failure = await post([DEAD, DEAD, DEAD, "127.0.0.1"]).catch((error) => error);
  expect(failure.message).toContain("could not be reached");
  expect(receiver.received).toEqual([]);
});

test("error: one that is not public is enough to refuse the name", async () => {
  const refused = { allowPrivate: false, protocol: "https" };
  for (const addresses of [["8.8.8.8", "127.0.0.1"], ["::ffff:7f00:1"], ["64:ff9b::7f00:1", "8.8.8.8"]]) {
    const failure = await post(addresses, refused).catch((error) => error);
    expect(failure.message).toBe("the name shop.example.test resolves to an address that is not public");
  }
});
