/** A small HTTP client of the service: JSON in and out, with a cookie jar. */

export type Answer<Body> = { status: number; headers: Headers; body: Body };

export type DemoClient = {
  get: <Body>(path: string, expectedStatus?: number) => Promise<Answer<Body>>;
  post: <Body>(path: string, body: unknown, expectedStatus?: readonly number[]) => Promise<Answer<Body>>;
};

const TIMEOUT_MS = 30_000;
const SHOWN_CHARS = 500;

/** Every response must have the expected status; otherwise throws with the request and the response. */
export function openDemoClient(apiUrl: string): DemoClient {
  const cookies = new Map<string, string>();

  async function call<Body>(method: string, path: string, expected: readonly number[], body?: unknown) {
    const response = await fetch(new URL(path, apiUrl), {
      method,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: {
        accept: "application/json, text/csv",
        ...(cookies.size > 0 ? { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    for (const line of response.headers.getSetCookie()) keepCookie(cookies, line);
    const text = await response.text();
    if (!expected.includes(response.status)) {
      throw new Error(
        `${method} ${path} answered ${response.status}, expected ${expected.join(" or ")}: ${text.slice(0, SHOWN_CHARS)}`,
      );
    }
    const isJson = response.headers.get("content-type")?.includes("json");
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(text) : text) as Body,
    };
  }

  return {
    get: (path, expectedStatus = 200) => call("GET", path, [expectedStatus]),
    post: (path, body, expectedStatus = [200, 201]) => call("POST", path, expectedStatus, body),
  };
}

function keepCookie(cookies: Map<string, string>, line: string): void {
  const pair = line.split(";")[0] ?? "";
  const equals = pair.indexOf("=");
  if (equals > 0) cookies.set(pair.slice(0, equals).trim(), pair.slice(equals + 1).trim());
}
