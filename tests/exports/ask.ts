/** Requests exports and downloads files, byte by byte. */
import type { Client } from "../support/http-client.ts";

export const EXPORT_PATH = "/v1/transactions/export";

export type File = { status: number; headers: Headers; bytes: Uint8Array; text: string };

/** `path` may be a whole URL. */
export async function fetchFile(
  client: Client,
  path: string,
  init: RequestInit & { headers?: Record<string, string> } = {},
): Promise<File> {
  const cookie = [...client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const url = path.startsWith("http") ? path : `${client.baseUrl}${path}`;
  const response = await fetch(url, { ...init, headers: { cookie, ...init.headers } });
  const bytes = new Uint8Array(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes, text: new TextDecoder().decode(bytes) };
}

export function exportAs(
  client: Client,
  body: Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<File> {
  return fetchFile(client, EXPORT_PATH, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}
