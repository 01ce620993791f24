/** Subscriptions to one node over WebSocket, reopened on the next node after each loss. Events may be missing, so callers keep polling. */

import { parseJson } from "../domain/parse-json.ts";
import type { ChainNode } from "./node.ts";
import { fieldOf } from "./parse-answers.ts";

const RECONNECT_FIRST_MS = 500;
const RECONNECT_MAX_MS = 30_000;
/** A socket that is silent for this long counts as lost and is reopened. */
const SILENCE_MAX_MS = 60_000;
const PROBE_EVERY_MS = 25_000;
/** Ids of JSON-RPC requests: subscriptions count from 1. */
const PROBE_ID = 0;

export type SubscriptionOptions = {
  /** Parameters of one `eth_subscribe` each. */
  readonly subscriptions: readonly (readonly unknown[])[];
  /** False when it is not an event of these subscriptions. */
  readonly onEvent: (event: unknown) => boolean;
  /** Events may not come for hours: the node's chain id is asked for as a sign of life. */
  readonly isProbed: boolean;
};

export type SubscriptionSocket = {
  /** Every subscription was accepted, and the connection is open. */
  readonly isLive: () => boolean;
  readonly stop: () => void;
};

export function openSubscriptions(
  nodes: readonly ChainNode[],
  { subscriptions, onEvent, isProbed }: SubscriptionOptions,
): SubscriptionSocket {
  let isStopped = false;
  let failures = 0;
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let probing: ReturnType<typeof setInterval> | undefined;
  const accepted = new Set<number>();

  function open(): void {
    const node = nodes[failures % nodes.length];
    if (isStopped || !node) return;
    accepted.clear();
    socket = node.connect();
    const current = socket;
    const send = (id: number, method: string, params: readonly unknown[]) => {
      if (current.readyState === WebSocket.OPEN)
        current.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    };
    const lose = () => {
      if (current !== socket) return;
      socket = undefined;
      accepted.clear();
      clearInterval(probing);
      current.close();
      failures += 1;
      schedule(open, Math.min(RECONNECT_FIRST_MS * 2 ** Math.min(failures - 1, 10), RECONNECT_MAX_MS));
    };
    const live = () => {
      failures = 0;
      schedule(lose, SILENCE_MAX_MS);
    };
    current.onopen = () => {
      for (const [index, params] of subscriptions.entries()) send(index + 1, "eth_subscribe", params);
      if (!isProbed) return;
      probing = setInterval(() => send(PROBE_ID, "eth_chainId", []), PROBE_EVERY_MS);
      probing.unref?.();
    };
    current.onmessage = ({ data }) => {
      if (current !== socket) return;
      const message = parseJson(String(data));
      const event = fieldOf(fieldOf(message, "params"), "result");
      if (event !== undefined) {
        if (onEvent(event)) live();
        return;
      }
      const id = fieldOf(message, "id");
      if (typeof id !== "number" || typeof fieldOf(message, "result") !== "string") return;
      if (id === PROBE_ID) return live();
      accepted.add(id);
      if (isProbed && accepted.size === subscriptions.length) live();
    };
    current.onerror = lose;
    current.onclose = lose;
    schedule(lose, SILENCE_MAX_MS);
  }

  function schedule(action: () => void, afterMs: number): void {
    clearTimeout(timer);
    if (isStopped) return;
    timer = setTimeout(action, afterMs);
    timer.unref?.();
  }

  open();
  return {
    isLive: () => socket !== undefined && accepted.size === subscriptions.length,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      clearInterval(probing);
      const current = socket;
      socket = undefined;
      current?.close();
    },
  };
}
