/** WalletConnect's relay and a wallet at its other end, both on this machine: messages between topics, and a wallet that signs with a key of its own. */
import type { Page } from "playwright-core";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";

type RelayCall = { id: number; method?: string; params?: Record<string, unknown> };
type Listener = { topics: Set<string>; send: (text: string) => void };

/** What the page and the wallet say to the relay, as far as a payment needs it. */
export type FakeRelay = {
  url: string;
  /** Leads the page's socket here. */
  serve: (page: Page) => Promise<void>;
  stop: () => void;
};

export function startRelay(): FakeRelay {
  const listeners = new Set<Listener>();
  /** Messages of a topic that nobody listened to yet. */
  const kept = new Map<string, string[]>();
  let nextId = 1;

  function deliver(listener: Listener, topic: string, message: string): void {
    // with no attestation the wallet's library asks WalletConnect for none
    const data = { topic, message, publishedAt: Date.now(), tag: 0, attestation: "" };
    const params = { id: topic, data };
    listener.send(
      JSON.stringify({
        id: Date.now() * 1000 + nextId++,
        jsonrpc: "2.0",
        method: "irn_subscription",
        params,
      }),
    );
  }
  function publish(from: Listener, topic: unknown, message: unknown): void {
    const [name, text] = [String(topic), String(message)];
    kept.set(name, [...(kept.get(name) ?? []), text]);
    for (const listener of listeners)
      if (listener !== from && listener.topics.has(name)) deliver(listener, name, text);
  }
  function subscribe(listener: Listener, topics: readonly string[]): void {
    for (const topic of topics) {
      if (listener.topics.has(topic)) continue;
      listener.topics.add(topic);
      for (const message of kept.get(topic) ?? []) deliver(listener, topic, message);
    }
  }
  function answer(listener: Listener, { method, params = {} }: RelayCall): unknown {
    switch (method) {
      case "irn_subscribe":
        subscribe(listener, [String(params.topic)]);
        return params.topic;
      case "irn_batchSubscribe":
        subscribe(listener, params.topics as string[]);
        return params.topics;
      case "irn_publish":
        publish(listener, params.topic, params.message);
        return true;
      case "wc_proposeSession":
        subscribe(listener, [String(params.pairingTopic)]);
        publish(listener, params.pairingTopic, params.sessionProposal);
        return true;
      case "wc_approveSession":
        subscribe(listener, [String(params.sessionTopic)]);
        publish(listener, params.pairingTopic, params.sessionProposalResponse);
        publish(listener, params.sessionTopic, params.sessionSettlementRequest);
        return true;
      default:
        return true;
    }
  }
  function join(send: (text: string) => void) {
    const listener: Listener = { topics: new Set(), send };
    listeners.add(listener);
    return {
      hear: (text: string) => {
        const call = JSON.parse(text) as RelayCall;
        if (call.method === undefined) return;
        const result = answer(listener, call);
        send(JSON.stringify({ id: call.id, jsonrpc: "2.0", result }));
      },
      leave: () => listeners.delete(listener),
    };
  }

  const server = Bun.serve<ReturnType<typeof join> | undefined>({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, server) =>
      server.upgrade(request, { data: undefined }) ? undefined : new Response(null, { status: 404 }),
    websocket: {
      open: (socket) => {
        socket.data = join((text) => socket.send(text));
      },
      message: (socket, text) => socket.data?.hear(String(text)),
      close: (socket) => void socket.data?.leave(),
    },
  });
  return {
    url: `ws://127.0.0.1:${server.port}`,
    serve: (page) =>
      page.routeWebSocket("wss://relay.walletconnect.org/**", (socket) => {
        const member = join((text) => socket.send(text));
        socket.onMessage((text) => member.hear(String(text)));
        socket.onClose(() => void member.leave());
      }),
    stop: () => void server.stop(true),
  };
}

/** The hidden frame that attests to the page's origin: answers at once, with an attestation of nothing. */
const ATTEST = `<script>
  const id = new URL(location.href).searchParams.get("id");
  const encode = (value) => btoa(JSON.stringify(value)).replaceAll("=", "");
  const attestation = [encode({ alg: "ES256", typ: "JWT" }), encode({ id }), "AA"].join(".");
  parent.postMessage(JSON.stringify({ type: "verify_attestation", attestation }), "*");
</script>`;

export const serveAttestation = (page: Page) =>
  page.route("https://verify.walletconnect.org/**", (route) =>
    route.fulfill({ contentType: "text/html", body: ATTEST }),
  );

/** WalletConnect's own library for wallets, as much of it as is used here. It is installed with the page's libraries. */
type SignClient = {
  on: (event: string, listener: (event: never) => void) => void;
  pair: (options: { uri: string }) => Promise<unknown>;
  approve: (options: unknown) => Promise<unknown>;
  respond: (options: unknown) => Promise<unknown>;
};
type Proposal = { id: number };
type SessionRequest = {
  id: number;
  topic: string;
  params: { request: { method: string; params: unknown[] } };
};

export type RemoteWallet = { address: Hex; calls: string[]; pair: (uri: string) => Promise<unknown> };

const LIBRARY = "../../web/wallets/node_modules/@walletconnect/sign-client/dist/index.js";

/** Approves every session. `declines`: so many signatures are refused. */
export async function startRemoteWallet(
  relayUrl: string,
  options: { declines?: number } = {},
): Promise<RemoteWallet> {
  const { SignClient } = (await import(LIBRARY)) as {
    SignClient: { init: (options: unknown) => Promise<SignClient> };
  };
  const client = await SignClient.init({
    projectId: "0".repeat(32),
    relayUrl,
    telemetryEnabled: false,
    logger: "silent",
    customStoragePrefix: crypto.randomUUID(),
    storage: memory(),
    metadata: { name: "Remote", description: "Remote", url: "http://localhost", icons: [] },
  });
  const account = privateKeyToAccount(generatePrivateKey());
  const calls: string[] = [];
  let declinesLeft = options.declines ?? 0;
  client.on("session_proposal", async ({ id }: Proposal) => {
    const eip155 = {
      chains: ["eip155:84532"],
      methods: ["eth_signTypedData_v4", "eth_sendTransaction"],
      events: ["chainChanged", "accountsChanged"],
      accounts: [`eip155:84532:${account.address}`],
    };
    await client.approve({ id, namespaces: { eip155 } });
  });
  client.on("session_request", async ({ id, topic, params: { request } }: SessionRequest) => {
    calls.push(request.method);
    if (declinesLeft-- > 0) {
      const error = { code: 5000, message: "User rejected." };
      await client.respond({ topic, response: { id, jsonrpc: "2.0", error } });
      return;
    }
    const { types, ...typed } = JSON.parse(request.params[1] as string);
    const { EIP712Domain: _domain, ...own } = types;
    const result = await account.signTypedData({ ...typed, types: own });
    await client.respond({ topic, response: { id, jsonrpc: "2.0", result } });
  });
  return {
    address: account.address.toLowerCase() as Hex,
    calls,
    pair: (uri) => client.pair({ uri }),
  };
}

function memory() {
  const kept = new Map<string, unknown>();
  return {
    getKeys: async () => [...kept.keys()],
    getEntries: async () => [...kept.entries()],
    getItem: async (key: string) => kept.get(key),
    setItem: async (key: string, value: unknown) => void kept.set(key, value),
    removeItem: async (key: string) => void kept.delete(key),
  };
}
