/** A browser's worth of HTTP: JSON, a cookie jar, and nothing clever. */

export type Answer = {
  status: number;
  // a test reads what it expects to be there; a wrong path fails its assertion
  // biome-ignore lint/suspicious/noExplicitAny: the shape is what is under test
  body: any;
  text: string;
  headers: Headers;
};

export type Client = {
  baseUrl: string;
  cookies: Map<string, string>;
  get: (path: string, headers?: Record<string, string>) => Promise<Answer>;
  post: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  patch: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  delete: (path: string, headers?: Record<string, string>) => Promise<Answer>;
};

const TIMEOUT_MS = 60_000;

export function openClient(baseUrl: string, { timeoutMs = TIMEOUT_MS } = {}): Client {
  const cookies = new Map<string, string>();
  const send = async (method: string, path: string, body: unknown, headers: Record<string, string> = {}) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        ...(cookie ? { cookie } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    for (const line of response.headers.getSetCookie()) keep(cookies, line);
    const text = await response.text();
    return { status: response.status, text, body: parse(text), headers: response.headers };
  };
  return {
    baseUrl,
    cookies,
    get: (path, headers) => send("GET", path, undefined, headers),
    post: (path, body, headers) => send("POST", path, body, headers),
    patch: (path, body, headers) => send("PATCH", path, body, headers),
    delete: (path, headers) => send("DELETE", path, undefined, headers),
  };
}

function keep(cookies: Map<string, string>, line: string): void {
  const [pair = "", ...attributes] = line.split(";").map((part) => part.trim());
  const at = pair.indexOf("=");
  const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
  const isOver = value === "" || attributes.some((attribute) => /^max-age=0$/i.test(attribute));
  if (isOver) cookies.delete(name);
  else cookies.set(name, value);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
