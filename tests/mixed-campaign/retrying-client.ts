/** A client of a service that fails: each request goes to one of the APIs, and again until one of them answers it. */
import { type Answer, type Client, openClient } from "../support/http-client.ts";

/** Shorter than the longest freeze of a process: its request is repeated elsewhere, and still handled when it runs again. */
const REQUEST_TIMEOUT_MS = 12_000;
const ANSWER_TIMEOUT_MS = 60_000;
const PAUSE_MS = 150;

/** Has the session of `client`. `baseUrl` is asked anew for each attempt. Throws when no API answers in time; a refusal is an answer. */
export function openRetryingClient(client: Client, baseUrl: () => string): Client {
  const repeat = async (what: string, ask: (attempt: Client) => Promise<Answer>): Promise<Answer> => {
    const deadline = Date.now() + ANSWER_TIMEOUT_MS;
    for (let last = "none"; ; ) {
      const attempt = openClient(baseUrl(), { timeoutMs: REQUEST_TIMEOUT_MS });
      for (const [name, value] of client.cookies) attempt.cookies.set(name, value);
      const answer = await ask(attempt).catch((error: unknown) => {
        last = String(error);
        return undefined;
      });
      if (answer && answer.status < 500) return answer;
      if (answer) last = `${answer.status} ${answer.text.slice(0, 300)}`;
      if (Date.now() > deadline) throw new Error(`${what}: no answer in time, at last: ${last}`);
      await Bun.sleep(PAUSE_MS);
    }
  };
  return {
    ...{ baseUrl: client.baseUrl, cookies: client.cookies },
    get: (path, headers) => repeat(`GET ${path}`, (attempt) => attempt.get(path, headers)),
    post: (path, body, headers) => repeat(`POST ${path}`, (attempt) => attempt.post(path, body, headers)),
    patch: (path, body, headers) => repeat(`PATCH ${path}`, (attempt) => attempt.patch(path, body, headers)),
    delete: (path, headers) => repeat(`DELETE ${path}`, (attempt) => attempt.delete(path, headers)),
  };
}
